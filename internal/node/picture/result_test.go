package picture

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// ending is a pod that has ended: what its kubelet says about it and about its container.
type ending struct {
	reason, message  string
	code             int32
	cause, figures   string
	condition        string
	noContainer      bool
	deleted          bool
	order            *stop
	restart          int32
	interruption     string
	want, wantDetail string
}

func TestWhatTheEndOfAPodMeans(t *testing.T) {
	abort, interrupt := &stop{reason: "preemption"}, &stop{interrupt: true, reason: "preemption"}
	for name, e := range map[string]ending{
		"completed":                              {figures: `{"exit_code": 0}`, want: "completed"},
		"completed without figures":              {want: "completed"},
		"failed":                                 {code: 3, figures: `{"exit_code": 3}`, want: "failed", wantDetail: "exited with code 3"},
		"ended by a signal":                      {code: 139, figures: `{"exit_code": 139, "signal": 11}`, want: "failed", wantDetail: "signal 11"},
		"over its memory limit":                  {code: 137, cause: "OOMKilled", want: "failed", wantDetail: "Memory limit exceeded"},
		"over its time limit":                    {code: 137, figures: `{"exit_code": 137, "signal": 9, "time_limit_exceeded": true}`, want: "failed", wantDetail: "time limit"},
		"over the deadline of its pod":           {code: 137, reason: "DeadlineExceeded", want: "failed", wantDetail: "time limit"},
		"aborted":                                {code: 137, order: abort, want: "aborted preemption"},
		"aborted, but faster":                    {figures: `{"exit_code": 0}`, order: abort, want: "aborted preemption"},
		"interrupted by the signal":              {code: 143, figures: `{"exit_code": 143, "signal": 15}`, order: interrupt, want: "interrupted"},
		"interrupted by its own signal":          {code: 130, figures: `{"exit_code": 130, "signal": 2}`, interruption: "SIGINT", order: interrupt, want: "interrupted"},
		"interrupted, a shell reports it":        {code: 143, figures: `{"exit_code": 143}`, order: interrupt, want: "interrupted"},
		"interrupted with its exit code":         {code: 9, figures: `{"exit_code": 9}`, restart: 9, order: interrupt, want: "interrupted"},
		"interrupted and completed":              {figures: `{"exit_code": 0}`, order: interrupt, want: "completed"},
		"interrupted and failed":                 {code: 1, figures: `{"exit_code": 1}`, order: interrupt, want: "failed"},
		"interrupted and too slow":               {code: 137, order: interrupt, want: "aborted preemption"},
		"too slow, without a reason":             {code: 137, order: &stop{interrupt: true}, want: "aborted interruption_timeout"},
		"must fail":                              {code: 137, order: &stop{fail: true, message: "time is up"}, want: "failed", wantDetail: "time is up"},
		"deleted by a user":                      {code: 143, figures: `{"exit_code": 143, "signal": 15}`, deleted: true, want: "aborted other", wantDetail: "deleted"},
		"deleted by a user after it ended":       {figures: `{"exit_code": 0}`, deleted: true, want: "completed"},
		"evicted above its request":              {reason: "Evicted", message: "low on resource: memory. Container job was using 2Gi, request is 1Gi, has larger consumption of memory.", code: 137, want: "aborted resource_overdraft"},
		"evicted within its request":             {reason: "Evicted", message: "low on resource: memory.", code: 137, want: "aborted node_resource_overcommit"},
		"evicted for disk":                       {reason: "Evicted", message: "low on resource: ephemeral-storage.", code: 137, want: "aborted other", wantDetail: "ephemeral-storage"},
		"its sandbox is too large":               {reason: "Evicted", message: `Usage of EmptyDir volume "weir-sandbox" exceeds the limit "8Mi". `, code: 137, want: "failed", wantDetail: "Disk limit exceeded"},
		"its files are too large":                {reason: "Evicted", message: "Pod ephemeral local storage usage exceeds the total limit of containers 8Mi. ", code: 137, want: "failed", wantDetail: "8Mi"},
		"its container writes too much":          {reason: "Evicted", message: `Container job exceeded its local ephemeral storage limit "8Mi". `, code: 137, want: "failed", wantDetail: "Disk limit exceeded"},
		"no room at the kubelet":                 {reason: "OutOfcpu", message: "requested 1", noContainer: true, want: "aborted node_resource_overcommit"},
		"refused by the kubelet":                 {reason: "NodeAffinity", message: "does not match", noContainer: true, want: "aborted other"},
		"preempted by another scheduler":         {condition: "PreemptionByScheduler", message: "", code: 143, want: "aborted preemption", wantDetail: "another scheduler"},
		"deleted by the taint manager":           {condition: "DeletionByTaintManager", code: 143, want: "aborted node_offline"},
		"collected, its node is gone":            {condition: "DeletionByPodGC", noContainer: true, want: "aborted node_offline"},
		"ended without a word":                   {noContainer: true, want: "aborted disappeared_from_node"},
		"a termination message of the job's own": {code: 1, figures: "I am not JSON", want: "failed", wantDetail: "exited with code 1"},
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: e.reason, Message: e.message}}
		if e.code == 0 && !e.noContainer {
			pod.Status.Phase = corev1.PodSucceeded
		}
		if e.condition != "" {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: e.condition}}
		}
		if e.deleted {
			at := metav1.NewTime(time.Unix(5, 0))
			pod.DeletionTimestamp = &at
		}
		if !e.noContainer {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: Container, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: e.code, Reason: e.cause, Message: e.figures, StartedAt: metav1.NewTime(time.Unix(1, 0)), FinishedAt: metav1.NewTime(time.Unix(3, 0)),
			}}}}
		}
		s := spec()
		s.Interruption = &nodev1.Interruption{Signal: e.interruption}
		if e.restart != 0 {
			s.RestartExitCode = &e.restart
		}
		r := resultOf(identity(1), s, pod, e.order, time.Unix(4, 0))
		got := strings.TrimSuffix(strings.ToLower(strings.TrimPrefix(r.GetState().String(), "JOB_STATE_"))+" "+r.GetAbortReason(), " ")
		detail := r.GetError().GetMessage()
		for _, inner := range r.GetError().GetInnerErrors() {
			detail += " " + inner.GetMessage()
		}
		if got != e.want || !strings.Contains(detail, e.wantDetail) || r.GetStarted() == e.noContainer {
			t.Errorf("%s: %s (%s), started %v; want %s (%s)", name, got, detail, r.GetStarted(), e.want, e.wantDetail)
		}
	}
}

func TestTheFiguresOfAJobComeFromItsTerminationMessage(t *testing.T) {
	pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{{Name: Container, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{
			Message:   `{"exit_code": 0, "signal": 0, "user_time_us": 2500000, "system_time_us": 1000000, "max_memory_bytes": 123}`,
			StartedAt: metav1.NewTime(time.Unix(1, 0)), FinishedAt: metav1.NewTime(time.Unix(3, 0)),
		},
	}}}}}
	got := map[string]int64{}
	for _, s := range resultOf(identity(1), spec(), pod, nil, time.Unix(4, 0)).GetStatistics() {
		got[s.GetPath()] = s.GetSum()
	}
	for path, want := range map[string]int64{"time/exec": 2000, "user_job/cpu/user": 2500, "user_job/cpu/system": 1000, "user_job/max_memory": 123, "user_job/memory_limit": 2 << 30} {
		if got[path] != want {
			t.Errorf("%s: %d, want %d", path, got[path], want)
		}
	}
}

func TestThePodOfAJob(t *testing.T) {
	o := options()
	s := spec()
	s.TmpfsVolumes = []*nodev1.TmpfsVolume{{Path: "fast", Size: 1 << 20}}
	s.Image = &nodev1.JobImage{Name: "registry.example/train@sha256:1"}
	s.Interruption = &nodev1.Interruption{Signal: "SIGINT"}
	s.Environment = []*nodev1.Variable{{Name: "A", Value: "$(B)"}, {Name: "WEIR_JOB_ID", Value: "forged"}}
	s.Extra = []byte(`{"kubernetes": {"service_account": "trainer", "image_pull_secrets": ["pull"], "labels": {"team": "a"}, "volumes": [{"name": "data", "mount_path": "/data", "persistentVolumeClaim": {"claimName": "data"}}]}}`)
	i := identity(1<<40 + 5)
	i.Resources.Gpu = 2
	pod, err := o.podOf(&nodeproto.Start{Identity: i, Spec: s}, nil, "n1", "nvidia.com/gpu")
	if err != nil {
		t.Fatal(err)
	}
	c := pod.Spec.Containers[0]
	if c.Image != "registry.example/train@sha256:1" || pod.Spec.ServiceAccountName != "trainer" || *pod.Spec.AutomountServiceAccountToken || pod.Labels["team"] != "a" {
		t.Errorf("%+v", pod.Spec)
	}
	if got := c.Resources.Requests.Memory().Value(); got != 1<<30 {
		t.Errorf("it asks for %d bytes, and the core granted 1 GiB", got)
	}
	if got := c.Resources.Limits.Memory().Value(); got != 2<<30+128<<20 {
		t.Errorf("its limit is %d, not memory_limit with the footprint", got)
	}
	if _, limited := c.Resources.Limits["cpu"]; limited || c.Resources.Requests.Cpu().MilliValue() != 1000 {
		t.Errorf("%v", c.Resources)
	}
	if q := c.Resources.Limits["nvidia.com/gpu"]; q.Value() != 2 {
		t.Errorf("%v", c.Resources)
	}
	if want := []string{"/weir/weir-pod", "--pod", "--result", "/dev/termination-log", "--interruption-signal", "SIGINT", "--memory-limit", "2147483648", "--", "/bin/sh", "-c", "echo $$(hostname) $$$$"}; strings.Join(c.Command, " ") != strings.Join(want, " ") {
		t.Errorf("%q", c.Command)
	}
	values := map[string]string{}
	for _, v := range c.Env {
		values[v.Name] = v.Value
	}
	if values["A"] != "$$(B)" || values["WEIR_JOB_ID"] != i.GetJobId() || values["WEIR_TMPFS_PATH_0"] != "/job/fast" {
		t.Errorf("%v", values)
	}
	back, err := identityOf(pod)
	if err != nil || back.GetNumber() != i.GetNumber() || string(back.GetProof()) != "proof" {
		t.Errorf("%v, %v", back, err)
	}
	if len(pod.Finalizers) != 1 || pod.Finalizers[0] != Finalizer || pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("%+v", pod)
	}
}

func TestTheSectionOfATaskIsReadStrictly(t *testing.T) {
	for text, want := range map[string]string{
		`{"kubernetes": {"servic_account": "a"}}`:                                                                `kubernetes: unknown field "servic_account"`,
		`{"kubernetes": {"node_selector": {"a": 3}}}`:                                                            "kubernetes/node_selector: want a string, not a number",
		`{"kubernetes": {"node_selector": {"a b": "c"}}}`:                                                        "kubernetes/node_selector/a b: name part must consist of",
		`{"kubernetes": {"node_selector": {"a": "b c"}}}`:                                                        "kubernetes/node_selector/a: a valid label must",
		`{"kubernetes": {"tolerations": {}}}`:                                                                    "kubernetes/tolerations: want a list, not a map",
		`{"kubernetes": {"tolerations": [{"key": "a", "operator": "Like"}]}}`:                                    `kubernetes/tolerations/0/operator: want Exists or Equal, not "Like"`,
		`{"kubernetes": {"tolerations": [{}, {"value": "b"}]}}`:                                                  "kubernetes/tolerations/0/operator: must be Exists if there is no key",
		`{"kubernetes": {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}}`:                    "kubernetes/tolerations/0/value: must be empty with the operator Exists",
		`{"kubernetes": {"tolerations": [{"key": "a", "effect": "Never"}]}}`:                                     `kubernetes/tolerations/0/effect: want NoSchedule, PreferNoSchedule or NoExecute, not "Never"`,
		`{"kubernetes": {"tolerations": [{"key": "a", "tolerationSeconds": 3}]}}`:                                "kubernetes/tolerations/0/tolerationSeconds: needs the effect NoExecute",
		`{"kubernetes": {"affinity": {"podAffinity": {}}}}`:                                                      "kubernetes/affinity/podAffinity: not supported for tasks",
		`{"kubernetes": {"affinity": {"podAntiAffinity": {}}}}`:                                                  "kubernetes/affinity/podAntiAffinity: not supported for tasks",
		`{"kubernetes": {"affinity": {"nodeAfinity": {}}}}`:                                                      `kubernetes: unknown field "nodeAfinity"`,
		`{"kubernetes": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}}}`: "kubernetes/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms: want at least one term",
		`{"kubernetes": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Is"}]}]}}}}}`: "kubernetes/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution: nodeSelectorTerms[0].matchExpressions[0].operator",
		`{"kubernetes": {"affinity": {}, "tolerations": [], "node_selector": {}}}`:                                                                                                            "",
		`{"kubernetes": {"labels": {"weir.dev/pool": "a"}}}`:                                                                                                                                  "kubernetes/labels/weir.dev/pool: names with weir.dev/ belong to Weir",
		`{"kubernetes": {"volumes": [{"name": "a", "mount_path": "/a", "hostPath": {}}]}}`:                                                                                                    "kubernetes/volumes/0: want a configMap, a secret or a persistentVolumeClaim",
		`{"kubernetes": {"volumes": [{"name": "weir-init", "mount_path": "/a", "secret": {}}]}}`:                                                                                              "kubernetes/volumes/0/name: weir-init is a volume of the pod itself",
		`{"kubernetes": {"volumes": [{"name": "a", "secret": {}}]}}`:                                                                                                                          "kubernetes/volumes/0: name and mount_path are required",
		`{"kubernetes": 3}`: "kubernetes: cannot unmarshal number",
		`not JSON`:          "kubernetes: invalid character",
		`{"kubernetes": {"security_context": {"runAsUser": 1}, "evictable": true}}`: "",
		``: "",
	} {
		_, err := readSection([]byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestWhichNodesGetJobs(t *testing.T) {
	o := options()
	o.ToleratedTaints = []string{"dedicated"}
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		want   string
	}{
		"an ordinary one": {func(*corev1.Node) {}, ""},
		"not ready":       {func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }, "the node is not ready"},
		"without a word":  {func(n *corev1.Node) { n.Status.Conditions = nil }, "the node is not ready"},
		"cordoned": {func(n *corev1.Node) {
			n.Spec.Unschedulable = true
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
		}, "the node is cordoned"},
		"leaving": {func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}}
		}, "the node is leaving: taint karpenter.sh/disrupted"},
		"control plane": {func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}
		}, "the node has the taint node-role.kubernetes.io/control-plane (NoSchedule)"},
		"tolerated": {func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}
		}, ""},
		"asked last": {func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectPreferNoSchedule}}
		}, ""},
		"full of pages": {func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue})
		}, "the node reports MemoryPressure"},
	} {
		n := machine("n", "1", "1Gi")
		c.change(n)
		if got := strings.Join(o.obstacles(n), "; "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
