package deploy_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A check that never fails looks exactly like a manifest without a fault: each
// row breaks the rendered overlay in one place and names what must be said.
func TestEachFaultIsFound(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		spoil func(m *manifest, worker *corev1.PodSpec)
		want  string
	}{
		{"namespace without a standard", func(m *manifest, _ *corev1.PodSpec) {
			delete(m.namespaces[0].Labels, "pod-security.kubernetes.io/enforce")
		}, "does not enforce"},
		{"capabilities kept", func(_ *manifest, w *corev1.PodSpec) {
			w.Containers[0].SecurityContext.Capabilities = nil
		}, "is not restricted: unrestricted capabilities"},
		{"runs as root", func(_ *manifest, w *corev1.PodSpec) {
			*w.SecurityContext.RunAsUser = 0
		}, "is not restricted: runAsUser=0"},
		{"writable root", func(_ *manifest, w *corev1.PodSpec) {
			w.Containers[0].SecurityContext.ReadOnlyRootFilesystem = nil
		}, "may write to its root file system"},
		{"token mounted", func(_ *manifest, w *corev1.PodSpec) {
			w.AutomountServiceAccountToken = nil
		}, "is given a token"},
		{"grace shorter than the drain", func(_ *manifest, w *corev1.PodSpec) {
			*w.TerminationGracePeriodSeconds = 15
		}, "is killed after 15s"},
		{"probe of a port that is not there", func(_ *manifest, w *corev1.PodSpec) {
			w.Containers[0].Ports[0].Name = "metrics"
		}, "probe's port admin is not there"},
		{"probe of a port that nobody listens on", func(_ *manifest, w *corev1.PodSpec) {
			w.Containers[0].Ports[0].ContainerPort = 8080
		}, "listens on :9101"},
		{"liveness asks for readiness", func(_ *manifest, w *corev1.PodSpec) {
			w.Containers[0].LivenessProbe.HTTPGet.Path = "/readyz"
		}, "has no liveness probe on /livez"},
		{"unknown key in the file", func(m *manifest, _ *corev1.PodSpec) {
			m.configMaps[0].Data["config.yaml"] = "worker:\n  hartbeat_interval: 2s\n"
		}, "its configuration does not load"},
		{"unknown variable", func(_ *manifest, w *corev1.PodSpec) {
			w.Containers[0].Env = append(w.Containers[0].Env, corev1.EnvVar{Name: "LEASEHOLD_DATABASE_DSN_FIEL", Value: "x"})
		}, "LEASEHOLD_DATABASE_DSN_FIEL"},
		{"connection string is not there", func(_ *manifest, w *corev1.PodSpec) {
			w.Containers[0].VolumeMounts = w.Containers[0].VolumeMounts[:1]
		}, "its configuration does not load"},
		{"worker with the tools' credentials", func(_ *manifest, w *corev1.PodSpec) {
			w.Volumes[1].Secret.SecretName = "leasehold-tools"
		}, "a stale worker would have a way"},
		{"worker with the dispatcher's role", func(_ *manifest, w *corev1.PodSpec) {
			w.Volumes[1].Secret.SecretName = "leasehold-dispatcher-database"
		}, "of somebody else"},
		{"secret that nobody generates", func(m *manifest, _ *corev1.PodSpec) {
			m.secrets = m.secrets[:1]
		}, "is not generated with a dsn"},
		{"job of another version", func(m *manifest, _ *corev1.PodSpec) {
			m.jobs[0].Spec.Template.Spec.Containers[0].Image = "leasehold:v2"
		}, "is not named by its image's tag"},
		{"process of another version", func(_ *manifest, w *corev1.PodSpec) {
			w.Containers[0].Image = "leasehold-worker:v2"
		}, "is of another version"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := render(t, filepath.Join(k8sDir, "overlays", "dev"))
			i := slices.IndexFunc(m.workloads(), func(w workload) bool { return w.name == "leasehold-worker" })
			tt.spoil(m, &m.workloads()[i].pod.Spec)
			if got := strings.Join(faults(t, m), "\n"); !strings.Contains(got, tt.want) {
				t.Errorf("found %q, want %q in it", got, tt.want)
			}
		})
	}
}
