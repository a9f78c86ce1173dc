// Package deploy_test judges what a cluster would be told, without a cluster:
// the base and every overlay are rendered by kustomize itself, decoded strictly
// into the API's own types and held against the product's configuration and
// against the Dockerfile.
//
// It does not prove that a cluster admits or starts them.
package deploy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	k8sDir  = "../k8s"
	rootDir = "../.."
)

// manifest is one rendered kustomization.
type manifest struct {
	name        string
	namespaces  []*corev1.Namespace
	accounts    []*corev1.ServiceAccount
	configMaps  []*corev1.ConfigMap
	secrets     []*corev1.Secret
	deployments []*appsv1.Deployment
	jobs        []*batchv1.Job
}

// workload is what Deployments and Jobs have in common.
type workload struct {
	name string
	pod  *corev1.PodTemplateSpec
}

func (w workload) container() *corev1.Container { return &w.pod.Spec.Containers[0] }

func (m *manifest) workloads() []workload {
	var list []workload
	for _, d := range m.deployments {
		list = append(list, workload{d.Name, &d.Spec.Template})
	}
	for _, j := range m.jobs {
		list = append(list, workload{j.Name, &j.Spec.Template})
	}
	return list
}

// kustomizations are the base and every overlay, found and not listed, so that
// a new overlay is judged from its first day.
func kustomizations(t *testing.T) []string {
	t.Helper()
	overlays, err := filepath.Glob(filepath.Join(k8sDir, "overlays", "*", "kustomization.yaml"))
	if err != nil || len(overlays) == 0 {
		t.Fatalf("find overlays: %v, %v", overlays, err)
	}
	dirs := []string{filepath.Join(k8sDir, "base")}
	for _, file := range overlays {
		dirs = append(dirs, filepath.Dir(file))
	}
	return dirs
}

// eachManifest runs check on every kustomization.
func eachManifest(t *testing.T, check func(t *testing.T, m *manifest)) {
	t.Helper()
	for _, dir := range kustomizations(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			check(t, render(t, dir))
		})
	}
}

func render(t *testing.T, dir string) *manifest {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatalf("render %s: %v", dir, err)
	}
	text, err := resources.AsYaml()
	if err != nil {
		t.Fatalf("write %s: %v", dir, err)
	}
	m, err := decode(filepath.Base(dir), string(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// decode refuses a field that the API does not have: a cluster would drop it
// and run without what was meant.
func decode(name, text string) (*manifest, error) {
	m := &manifest{name: name}
	for doc := range strings.SplitSeq(text, "\n---\n") {
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(doc), &meta); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		var err error
		switch meta.APIVersion + " " + meta.Kind {
		case "v1 Namespace":
			m.namespaces, err = add(m.namespaces, doc)
		case "v1 ServiceAccount":
			m.accounts, err = add(m.accounts, doc)
		case "v1 ConfigMap":
			m.configMaps, err = add(m.configMaps, doc)
		case "v1 Secret":
			m.secrets, err = add(m.secrets, doc)
		case "apps/v1 Deployment":
			m.deployments, err = add(m.deployments, doc)
		case "batch/v1 Job":
			m.jobs, err = add(m.jobs, doc)
		default:
			err = fmt.Errorf("nothing here judges a %s %s", meta.APIVersion, meta.Kind)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w in\n%s", name, err, doc)
		}
	}
	return m, nil
}

func add[T any](list []*T, doc string) ([]*T, error) {
	object := new(T)
	if err := yaml.UnmarshalStrict([]byte(doc), object); err != nil {
		return list, err
	}
	return append(list, object), nil
}

func TestEveryKustomizationHoldsTheWholeSystem(t *testing.T) {
	t.Parallel()
	eachManifest(t, func(t *testing.T, m *manifest) {
		if len(m.namespaces) != 1 || len(m.deployments) != 3 || len(m.jobs) != 1 || len(m.configMaps) != 1 {
			t.Errorf("%d namespaces, %d deployments, %d jobs, %d config maps; want 1, 3, 1, 1",
				len(m.namespaces), len(m.deployments), len(m.jobs), len(m.configMaps))
		}
	})
}

func TestAMisspeltFieldIsRefused(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(k8sDir, "base", "worker.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decode("as it is", string(text)); err != nil {
		t.Fatal(err)
	}
	wrong := strings.Replace(string(text), "terminationGracePeriodSeconds", "terminationGracePeriodSecond", 1)
	if _, err := decode("misspelt", wrong); err == nil {
		t.Error("accepted")
	}
}
