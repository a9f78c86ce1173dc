package deploy_test

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/leasehold/leasehold/internal/config"
)

// configOf loads what w would load: the file of its ConfigMap, its variables
// and its connection string, by the product's own strict loader. Mounted paths
// are laid out below a folder of the test.
func configOf(t *testing.T, m *manifest, w workload) (*config.Config, error) {
	t.Helper()
	root := t.TempDir()
	for _, mount := range w.container().VolumeMounts {
		if err := lay(filepath.Join(root, mount.MountPath), m, volume(w, mount.Name)); err != nil {
			return nil, err
		}
	}
	var environ []string
	for _, v := range w.container().Env {
		value := v.Value
		if path.IsAbs(value) {
			value = filepath.Join(root, value)
		}
		environ = append(environ, v.Name+"="+value)
	}
	cfg, err := config.Load(config.Options{Environ: environ, Role: roleOf(w)})
	if err != nil {
		return nil, err
	}
	if cfg.Database.DSNFile == "" {
		return nil, errors.New("its connection string does not come from a file")
	}
	return cfg, nil
}

func volume(w workload, name string) corev1.VolumeSource {
	for _, v := range w.pod.Spec.Volumes {
		if v.Name == name {
			return v.VolumeSource
		}
	}
	return corev1.VolumeSource{}
}

// lay writes a volume's files. A secret that the cluster's owner brings holds a
// connection string; nothing is known of the tools' credentials.
func lay(dir string, m *manifest, v corev1.VolumeSource) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	files := map[string]string{}
	switch {
	case v.ConfigMap != nil:
		for _, c := range m.configMaps {
			if c.Name == v.ConfigMap.Name {
				files = c.Data
			}
		}
	case v.Secret != nil:
		files["dsn"] = "postgres://somebody@db/leasehold"
		for _, s := range m.secrets {
			if s.Name == v.Secret.SecretName {
				files["dsn"] = string(s.Data["dsn"])
			}
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("lay %s: %w", name, err)
		}
	}
	return nil
}
