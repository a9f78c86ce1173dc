package deploy_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/leasehold/leasehold/internal/config"
)

// handBack is what a process may need after its drain (stopGrace in
// internal/app): to hand leases back, to store answers, to close.
const handBack = 15 * time.Second

// unprivileged is the user of the images and of the pods.
const unprivileged = 65532

// roleOf is the role that a workload logs in with.
func roleOf(w workload) config.Role {
	if strings.HasPrefix(w.name, "leasehold-migrate") {
		return config.RoleMigrator
	}
	return config.Role(strings.TrimPrefix(w.name, "leasehold-"))
}

func TestRenderedManifestsHaveNoFault(t *testing.T) {
	t.Parallel()
	eachManifest(t, func(t *testing.T, m *manifest) {
		for _, fault := range faults(t, m) {
			t.Error(fault)
		}
	})
}

// faults judges one manifest by every relation.
func faults(t *testing.T, m *manifest) []string {
	t.Helper()
	list := namespaceFaults(m)
	for _, w := range m.workloads() {
		list = append(list, securityFaults(t, w)...)
		list = append(list, mountFaults(m, w)...)
		cfg, err := configOf(t, m, w)
		if err != nil {
			list = append(list, fmt.Sprintf("%s: its configuration does not load: %v", w.name, err))
			continue
		}
		if w.pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure {
			continue // the Job: no probes, nothing to drain
		}
		list = append(list, graceFaults(w, cfg)...)
		list = append(list, probeFaults(w, cfg)...)
	}
	return append(list, jobFaults(m)...)
}

func namespaceFaults(m *manifest) (list []string) {
	for _, n := range m.namespaces {
		for _, mode := range []string{"enforce", "audit", "warn"} {
			if n.Labels["pod-security.kubernetes.io/"+mode] != "restricted" {
				list = append(list, fmt.Sprintf("namespace %s does not %s the restricted standard", n.Name, mode))
			}
		}
		for _, d := range m.deployments {
			if d.Namespace != n.Name {
				list = append(list, fmt.Sprintf("%s is in namespace %q, not %q", d.Name, d.Namespace, n.Name))
			}
		}
	}
	return list
}

func securityFaults(t *testing.T, w workload) (list []string) {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	verdict := policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &w.pod.ObjectMeta, &w.pod.Spec))
	if !verdict.Allowed {
		list = append(list, fmt.Sprintf("%s is not restricted: %s", w.name, verdict.ForbiddenDetail()))
	}
	spec := w.pod.Spec
	if len(spec.Containers) != 1 || len(spec.InitContainers) != 0 {
		list = append(list, w.name+" does not have exactly one container")
	}
	if sc := spec.SecurityContext; sc == nil || sc.RunAsUser == nil || *sc.RunAsUser != unprivileged {
		list = append(list, fmt.Sprintf("%s does not run as %d", w.name, unprivileged))
	}
	if sc := w.container().SecurityContext; sc == nil || sc.ReadOnlyRootFilesystem == nil || !*sc.ReadOnlyRootFilesystem {
		list = append(list, w.name+" may write to its root file system")
	}
	if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
		list = append(list, w.name+" is given a token of the Kubernetes API")
	}
	if spec.EnableServiceLinks == nil || *spec.EnableServiceLinks {
		list = append(list, w.name+" is given the variables of every Service")
	}
	return list
}

// mountFaults holds mounts, volumes, secrets and accounts against each other.
func mountFaults(m *manifest, w workload) (list []string) {
	if !slices.ContainsFunc(m.accounts, func(a *corev1.ServiceAccount) bool { return a.Name == w.pod.Spec.ServiceAccountName }) {
		list = append(list, fmt.Sprintf("%s uses a service account %q that is not there", w.name, w.pod.Spec.ServiceAccountName))
	}
	volumes := map[string]corev1.Volume{}
	for _, v := range w.pod.Spec.Volumes {
		volumes[v.Name] = v
		switch {
		case v.ConfigMap != nil:
			if !slices.ContainsFunc(m.configMaps, func(c *corev1.ConfigMap) bool { return c.Name == v.ConfigMap.Name }) {
				list = append(list, fmt.Sprintf("%s mounts a config map %q that is not there", w.name, v.ConfigMap.Name))
			}
		case v.Secret != nil:
			list = append(list, secretFaults(m, w, v.Secret)...)
		default:
			list = append(list, fmt.Sprintf("%s has a volume %q of a kind that nothing needs", w.name, v.Name))
		}
	}
	for _, mount := range w.container().VolumeMounts {
		if _, ok := volumes[mount.Name]; !ok {
			list = append(list, fmt.Sprintf("%s mounts a volume %q that is not there", w.name, mount.Name))
		}
		if !mount.ReadOnly {
			list = append(list, fmt.Sprintf("%s may write to %s", w.name, mount.MountPath))
		}
	}
	return list
}

func secretFaults(m *manifest, w workload, s *corev1.SecretVolumeSource) (list []string) {
	role := string(roleOf(w))
	own := "leasehold-" + role + "-database"
	switch {
	case strings.HasPrefix(s.SecretName, own):
		// The base names the secrets of its users; an overlay may generate them.
		generated := slices.ContainsFunc(m.secrets, func(x *corev1.Secret) bool { return x.Name == s.SecretName && len(x.Data["dsn"]) > 0 })
		if len(m.secrets) > 0 && !generated {
			list = append(list, fmt.Sprintf("%s mounts a secret %q that is not generated with a dsn", w.name, s.SecretName))
		}
	case s.SecretName == "leasehold-tools" && (role == "dispatcher" || role == "reconciler"):
	case s.SecretName == "leasehold-tools":
		list = append(list, w.name+" mounts the credentials of tools: a stale worker would have a way to cause an effect")
	default:
		list = append(list, fmt.Sprintf("%s mounts the secret %q of somebody else", w.name, s.SecretName))
	}
	return list
}

func graceFaults(w workload, cfg *config.Config) []string {
	drain := map[config.Role]time.Duration{
		config.RoleWorker:     cfg.Worker.DrainTimeout,
		config.RoleDispatcher: cfg.Dispatcher.DrainTimeout,
		config.RoleReconciler: cfg.Reconciler.DrainTimeout,
	}[roleOf(w)]
	var grace time.Duration
	if s := w.pod.Spec.TerminationGracePeriodSeconds; s != nil {
		grace = time.Duration(*s) * time.Second
	}
	if grace <= drain+handBack {
		return []string{fmt.Sprintf("%s is killed after %s, but needs its drain timeout %s, %s more, and a moment", w.name, grace, drain, handBack)}
	}
	return nil
}

func probeFaults(w workload, cfg *config.Config) (list []string) {
	c := w.container()
	address := cfg.HTTP.Address(roleOf(w))
	for _, probe := range []struct {
		name string
		is   *corev1.Probe
		path string
	}{
		{"startup", c.StartupProbe, "/livez"},
		{"liveness", c.LivenessProbe, "/livez"},
		{"readiness", c.ReadinessProbe, "/readyz"},
	} {
		if probe.is == nil || probe.is.HTTPGet == nil || probe.is.HTTPGet.Path != probe.path {
			list = append(list, fmt.Sprintf("%s has no %s probe on %s", w.name, probe.name, probe.path))
			continue
		}
		port := probe.is.HTTPGet.Port
		i := slices.IndexFunc(c.Ports, func(p corev1.ContainerPort) bool {
			return p.Name == port.StrVal || p.ContainerPort == port.IntVal
		})
		if i < 0 {
			list = append(list, fmt.Sprintf("%s: the %s probe's port %s is not there", w.name, probe.name, port.String()))
		} else if want := fmt.Sprintf(":%d", c.Ports[i].ContainerPort); address != want {
			list = append(list, fmt.Sprintf("%s listens on %s; the %s probe asks %s", w.name, address, probe.name, want))
		}
	}
	return list
}

func jobFaults(m *manifest) (list []string) {
	for _, j := range m.jobs {
		c := j.Spec.Template.Spec.Containers[0]
		if !slices.Equal(c.Args, []string{"migrate", "up"}) || len(c.Command) != 0 {
			list = append(list, fmt.Sprintf("%s runs %v %v, not migrate up", j.Name, c.Command, c.Args))
		}
		if j.Spec.ActiveDeadlineSeconds == nil || j.Spec.TTLSecondsAfterFinished == nil {
			list = append(list, j.Name+" may hang, or stay, for ever")
		}
		if tag := tagOf(c.Image); m.name != "base" && (tag == "" || !strings.HasSuffix(j.Name, "-"+tag)) {
			list = append(list, fmt.Sprintf("%s is not named by its image's tag %q: the next version could not be applied", j.Name, tag))
		}
		for _, w := range m.workloads() {
			if tagOf(w.container().Image) != tagOf(c.Image) {
				list = append(list, fmt.Sprintf("%s is of another version (%s) than %s (%s)", w.name, w.container().Image, j.Name, c.Image))
			}
		}
	}
	return list
}

func tagOf(image string) string {
	_, tag, _ := strings.Cut(path.Base(image), ":")
	return tag
}
