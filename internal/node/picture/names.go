package picture

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/node/workload"
)

// Prefix begins the names of Weir's labels, annotations and finalizers.
const Prefix = workload.Prefix

// Names of labels, annotations and finalizers.
const (
	LabelOperation = Prefix + "operation"
	LabelTask      = Prefix + "task"
	LabelPool      = workload.LabelPool
	LabelEpoch     = Prefix + "epoch"
	// AnnotationJob holds the job's identity, by which a later leader adopts the pod.
	AnnotationJob = Prefix + "job"
	// AnnotationSpec holds the part of the job's specification that its end is judged by.
	AnnotationSpec = Prefix + "spec"
	// AnnotationFiles names the ConfigMap with files of the job; LabelFiles marks such ConfigMaps.
	AnnotationFiles = Prefix + "files"
	LabelFiles      = Prefix + "files"
	// Finalizer keeps the pod until its result is durable.
	Finalizer = Prefix + "result"
)

// Container is the name of the container that runs the job.
const Container = "job"

// numberDigits is how many digits of base 32 every job number fits into.
const numberDigits = 13

// PodName returns the name of a job's pod.
func PodName(number uint64) string {
	digits := strconv.FormatUint(number, 32)
	return "weir-" + strings.Repeat("0", numberDigits-len(digits)) + digits
}

// labelValue returns a legal value of a label: the text itself, or its hash.
func labelValue(text string) string {
	if len(validation.IsValidLabelValue(text)) == 0 {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + hex.EncodeToString(sum[:16])
}

// packed is the text form of a message.
func packed(m proto.Message) string {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return "" // messages that came over the wire can be written again
	}
	return base64.StdEncoding.EncodeToString(data)
}

func unpack(text string, into proto.Message) error {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	return proto.Unmarshal(data, into)
}

// errForeign is returned for pods that are no job's.
var errForeign = errors.New("the pod is no job of Weir")

// identityOf returns the identity of the job that a pod runs. The error is errForeign if the pod is no job's, and
// another one if it is a job's whose annotation cannot be read or names another pod.
func identityOf(pod *corev1.Pod) (*nodev1.JobIdentity, error) {
	text, given := pod.Annotations[AnnotationJob]
	if _, labelled := pod.Labels[LabelEpoch]; !labelled || !strings.HasPrefix(pod.Name, PodName(0)[:len("weir-")]) {
		return nil, errForeign
	}
	if !given {
		return nil, fmt.Errorf("the annotation %s is missing", AnnotationJob)
	}
	identity := &nodev1.JobIdentity{}
	if err := unpack(text, identity); err != nil {
		return nil, fmt.Errorf("the annotation %s cannot be read: %w", AnnotationJob, err)
	}
	if PodName(identity.GetNumber()) != pod.Name {
		return nil, fmt.Errorf("the annotation %s is that of another pod, %s", AnnotationJob, PodName(identity.GetNumber()))
	}
	return identity, nil
}

// judgedBy returns the part of a specification that the end of a job is judged by.
func judgedBy(spec *nodev1.JobSpec) *nodev1.JobSpec {
	return &nodev1.JobSpec{
		MemoryLimit: spec.GetMemoryLimit(), Interruption: spec.GetInterruption(), RestartExitCode: spec.RestartExitCode,
		MaxStderrSize: spec.GetMaxStderrSize(), JobTimeLimitUs: spec.GetJobTimeLimitUs(), PrepareTimeLimitUs: spec.GetPrepareTimeLimitUs(), Artifacts: spec.GetArtifacts(), CpuLimit: spec.GetCpuLimit(), CpuMonitor: spec.GetCpuMonitor(),
	}
}

// specOf returns what AnnotationSpec holds; an unreadable one holds nothing.
func specOf(pod *corev1.Pod) *nodev1.JobSpec {
	spec := &nodev1.JobSpec{}
	if err := unpack(pod.Annotations[AnnotationSpec], spec); err != nil {
		return &nodev1.JobSpec{}
	}
	return spec
}
