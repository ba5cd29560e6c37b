package picture

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirhq/weir/internal/node/jobinit"
	"github.com/weirhq/weir/internal/node/jobproxy"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/resource"
)

// Names of the pod's own volumes.
const (
	volumeInit      = "weir-init"
	volumeSandbox   = "weir-sandbox"
	volumeTemporary = "weir-tmp"
	volumeFiles     = "weir-files"
	volumeTmpfs     = "weir-tmpfs-"
)

// initDirectory is where the job's first process is; resultFile is its termination message.
const (
	initDirectory = "/weir"
	initProgram   = initDirectory + "/weir-pod"
	resultFile    = "/dev/termination-log"
	weirProgram   = "/usr/local/bin/weir" // in the image InitImage
)

// CopyCommand is the command of weir that writes weir-pod to a file.
const CopyCommand = "copy-pod"

// jobUser is whom jobs run as, unless the task sets another user.
const jobUser = 65532

// unsupported returns what a pod cannot give to the jobs of a task.
func unsupported(spec *nodev1.JobSpec) error {
	switch {
	case len(spec.GetImage().GetLayers()) > 0:
		return errors.New("layer_paths: not supported on Kubernetes: use docker_image")
	case spec.GetImage().GetAuth() != nil:
		return errors.New("secure_vault/docker_auth: not supported on Kubernetes: name a secret in kubernetes/image_pull_secrets")
	case spec.GetNetwork() == "none":
		return errors.New("network: none is not supported on Kubernetes: use a NetworkPolicy")
	case spec.GetGpuCheck() != nil:
		return errors.New("gpu_check_binary_path: not supported on Kubernetes")
	case spec.GetInodeLimit() > 0:
		return errors.New("inode_limit: not supported on Kubernetes: kubelets limit bytes, not files; use disk_space_limit")
	case len(spec.GetStdin()) > 0:
		return errors.New("stdin: not supported on Kubernetes")
	}
	return nil
}

// podOf returns the pod of a job. The error is the job's fault.
func (o *Options) podOf(start *nodeproto.Start, files *files, node string, gpu corev1.ResourceName) (*corev1.Pod, error) {
	identity, spec := start.Identity, start.Spec
	if err := unsupported(spec); err != nil {
		return nil, err
	}
	own, err := readSection(spec.GetExtra())
	if err != nil {
		return nil, err
	}
	resources, err := resourcesOf(identity, spec, gpu)
	if err != nil {
		return nil, err
	}
	no := false
	grace := int64(usualGrace.Seconds())
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: PodName(identity.GetNumber()), Namespace: o.Namespace, Labels: o.labelsOf(start, &own),
			Annotations: annotationsOf(start, &own), Finalizers: []string{Finalizer},
		},
		Spec: corev1.PodSpec{
			NodeName: node, RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &no,
			ServiceAccountName: o.ServiceAccount, TerminationGracePeriodSeconds: &grace, EnableServiceLinks: &no,
			SecurityContext: own.PodSecurity, Volumes: volumesOf(spec, &own),
			InitContainers: []corev1.Container{{
				Name: "init", Image: o.InitImage, Command: []string{weirProgram, CopyCommand, initProgram},
				VolumeMounts:    []corev1.VolumeMount{{Name: volumeInit, MountPath: initDirectory}},
				SecurityContext: confined(nil), Resources: initResources(),
			}},
			Containers: []corev1.Container{{
				Name: Container, Image: o.DefaultImage, Command: commandOf(spec, files), WorkingDir: jobinit.SandboxPath, Env: environmentOf(start, node),
				Resources: resources, VolumeMounts: mountsOf(spec, &own), SecurityContext: confined(own.SecurityContext),
				TerminationMessagePath: resultFile, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			}},
		},
	}
	if image := spec.GetImage().GetName(); image != "" {
		pod.Spec.Containers[0].Image = image
	}
	if own.ServiceAccount != "" {
		pod.Spec.ServiceAccountName = own.ServiceAccount
	}
	if own.RuntimeClass != "" {
		pod.Spec.RuntimeClassName = &own.RuntimeClass
	}
	for _, name := range own.ImagePullSecrets {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	pod.Spec.NodeSelector, pod.Spec.Affinity, pod.Spec.Tolerations = own.NodeSelector, own.Affinity, o.tolerationsOf(&own)
	if pod.Spec.SecurityContext == nil {
		pod.Spec.SecurityContext = defaultPodSecurity()
	}
	files.addTo(pod)
	return pod, nil
}

// tolerationsOf returns what the pods of a task tolerate: what all jobs do, and what the task adds.
func (o *Options) tolerationsOf(own *section) (list []corev1.Toleration) {
	for _, key := range o.ToleratedTaints {
		list = append(list, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
	return append(list, own.Tolerations...)
}

// defaultPodSecurity makes a pod run as a user without rights, as the level "restricted" requires.
func defaultPodSecurity() *corev1.PodSecurityContext {
	yes, user := true, int64(jobUser)
	return &corev1.PodSecurityContext{
		RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user, FSGroup: &user,
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// confined fills in what the level "restricted" requires of a container, where nothing else is given.
func confined(given *corev1.SecurityContext) *corev1.SecurityContext {
	if given != nil {
		return given
	}
	no := false
	return &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
}

func (o *Options) labelsOf(start *nodeproto.Start, own *section) map[string]string {
	labels := map[string]string{}
	for key, value := range own.Labels {
		labels[key] = value
	}
	labels[LabelOperation] = labelValue(start.Identity.GetOperationId())
	labels[LabelTask] = labelValue(start.Identity.GetTaskName())
	if pool := variable(start.Environment, poolVariable); pool != "" {
		labels[LabelPool] = labelValue(pool)
	}
	labels[LabelEpoch] = strconv.FormatUint(o.Epoch, 10)
	return labels
}

func annotationsOf(start *nodeproto.Start, own *section) map[string]string {
	annotations := map[string]string{}
	if !own.Evictable {
		annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] = "false"
		annotations["karpenter.sh/do-not-disrupt"] = "true"
	}
	for key, value := range own.Annotations {
		annotations[key] = value
	}
	annotations[AnnotationJob] = packed(start.Identity)
	annotations[AnnotationSpec] = packed(judgedBy(start.Spec))
	return annotations
}

// poolVariable is the variable of each job that names its pool.
const poolVariable = "WEIR_POOL"

func variable(list []*nodev1.Variable, name string) string {
	for _, v := range list {
		if v.GetName() == name {
			return v.GetValue()
		}
	}
	return ""
}

// commandOf returns the command of the container: the job's first process with the task's command.
func commandOf(spec *nodev1.JobSpec, files *files) []string {
	command := []string{initProgram, jobinit.PodFlag, "--result", resultFile}
	if signal := spec.GetInterruption().GetSignal(); signal != "" {
		command = append(command, "--interruption-signal", signal)
	}
	if limit := spec.GetMemoryLimit(); limit > 0 {
		command = append(command, "--memory-limit", strconv.FormatInt(limit, 10))
	}
	if limit := nodeproto.Duration(spec.GetJobTimeLimitUs()); limit > 0 { // activeDeadlineSeconds of the pod would count its preparation too
		command = append(command, "--time-limit", limit.String())
	}
	if files != nil && files.killAfter > 0 {
		command = append(command, "--kill-after", strconv.FormatInt(seconds(files.killAfter), 10))
	}
	return append(command, "--", "/bin/sh", "-c", literal(spec.GetCommand()))
}

// environmentOf returns the variables of the command, sorted by name. Those that describe the job cannot be overridden.
func environmentOf(start *nodeproto.Start, node string) []corev1.EnvVar {
	identity, spec := start.Identity, start.Spec
	description := jobproxy.Description{
		JobID: identity.GetJobId(), OperationID: identity.GetOperationId(), Cookie: int64(identity.GetCookie()), Index: int64(identity.GetIndex()),
		TaskIndex: int64(identity.GetTaskIndex()), TaskName: identity.GetTaskName(), Tree: identity.GetTreeName(), Node: node,
		CPULimit: float64(spec.GetCpuLimit()) / 100, Memory: jobproxy.Memory{Limit: spec.GetMemoryLimit()},
	}
	for _, v := range spec.GetTmpfsVolumes() {
		description.Tmpfs = append(description.Tmpfs, jobproxy.Tmpfs{Path: v.GetPath(), Size: v.GetSize()})
	}
	variables := map[string]string{"HOME": jobinit.SandboxPath, "TMPDIR": jobinit.TemporaryPath}
	for _, v := range slices.Concat(spec.GetEnvironment(), start.Environment) {
		variables[v.GetName()] = v.GetValue()
	}
	for name, value := range description.Variables(jobinit.SandboxPath) {
		variables[name] = value
	}
	list := make([]corev1.EnvVar, 0, len(variables))
	for _, name := range sortedKeys(variables) {
		list = append(list, corev1.EnvVar{Name: name, Value: literal(variables[name])})
	}
	return list
}

// literal keeps Kubernetes from expanding references such as $(NAME) in a text.
func literal(text string) string { return strings.ReplaceAll(text, "$", "$$") }

// resourcesOf returns what the container asks for: memory as the core granted it, and the limit that the task set.
func resourcesOf(identity *nodev1.JobIdentity, spec *nodev1.JobSpec, gpu corev1.ResourceName) (r corev1.ResourceRequirements, err error) {
	granted := nodeproto.FromAmounts(identity.GetResources())
	memory := granted[resource.Memory]
	limit := max(memory, spec.GetMemoryLimit()+identity.GetReserve().GetFootprint())
	r.Requests = corev1.ResourceList{
		corev1.ResourceCPU:    *apiresource.NewMilliQuantity(granted[resource.CPU]*10, apiresource.DecimalSI),
		corev1.ResourceMemory: *apiresource.NewQuantity(memory, apiresource.BinarySI),
	}
	r.Limits = corev1.ResourceList{corev1.ResourceMemory: *apiresource.NewQuantity(limit, apiresource.BinarySI)}
	if spec.GetSetContainerCpuLimit() {
		r.Limits[corev1.ResourceCPU] = *apiresource.NewMilliQuantity(spec.GetCpuLimit()*10, apiresource.DecimalSI)
	}
	if size := spec.GetDiskSpaceLimit(); size > 0 {
		r.Limits[corev1.ResourceEphemeralStorage] = *apiresource.NewQuantity(size, apiresource.BinarySI)
	}
	if count := granted[resource.GPU]; count > 0 {
		if gpu == "" {
			return r, errors.New("the node has no GPUs any more")
		}
		r.Requests[gpu] = *apiresource.NewQuantity(count, apiresource.DecimalSI)
		r.Limits[gpu] = r.Requests[gpu]
	}
	return r, nil
}

// initResources are those of the container that copies one small file before the job starts. The job's own requests are
// larger, so they cost nothing.
func initResources() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("10m"), corev1.ResourceMemory: apiresource.MustParse("16Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: apiresource.MustParse("64Mi")},
	}
}

func emptyDir(name string, medium corev1.StorageMedium, size int64) corev1.Volume {
	source := &corev1.EmptyDirVolumeSource{Medium: medium}
	if size > 0 {
		source.SizeLimit = apiresource.NewQuantity(size, apiresource.BinarySI)
	}
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: source}}
}

func volumesOf(spec *nodev1.JobSpec, own *section) []corev1.Volume {
	list := []corev1.Volume{
		emptyDir(volumeInit, corev1.StorageMediumDefault, 0), emptyDir(volumeSandbox, corev1.StorageMediumDefault, spec.GetDiskSpaceLimit()),
		emptyDir(volumeTemporary, corev1.StorageMediumDefault, spec.GetDiskSpaceLimit()),
	}
	for i, v := range spec.GetTmpfsVolumes() {
		list = append(list, emptyDir(volumeTmpfs+strconv.Itoa(i), corev1.StorageMediumMemory, v.GetSize()))
	}
	for i := range own.Volumes {
		list = append(list, own.Volumes[i].Volume)
	}
	return list
}

func mountsOf(spec *nodev1.JobSpec, own *section) []corev1.VolumeMount {
	list := []corev1.VolumeMount{
		{Name: volumeInit, MountPath: initDirectory, ReadOnly: true}, {Name: volumeSandbox, MountPath: jobinit.SandboxPath},
		{Name: volumeTemporary, MountPath: jobinit.TemporaryPath},
	}
	for i, v := range spec.GetTmpfsVolumes() {
		list = append(list, corev1.VolumeMount{Name: fmt.Sprint(volumeTmpfs, i), MountPath: path.Join(jobinit.SandboxPath, v.GetPath())})
	}
	for i := range own.Volumes {
		v := &own.Volumes[i]
		list = append(list, corev1.VolumeMount{Name: v.Name, MountPath: v.MountPath, ReadOnly: v.ReadOnly})
	}
	return list
}
