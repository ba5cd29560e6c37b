package picture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// section is what a task says about its pods, beside what its other options say.
type section struct {
	ServiceAccount   string                     `json:"service_account"`
	ImagePullSecrets []string                   `json:"image_pull_secrets"`
	Volumes          []volume                   `json:"volumes"`
	SecurityContext  *corev1.SecurityContext    `json:"security_context"`
	PodSecurity      *corev1.PodSecurityContext `json:"pod_security_context"`
	RuntimeClass     string                     `json:"runtime_class"`
	Labels           map[string]string          `json:"labels"`
	Annotations      map[string]string          `json:"annotations"`
	// Evictable lets autoscalers move the task's pods.
	Evictable bool `json:"evictable"`

	NodeSelector json.RawMessage `json:"node_selector"`
	Affinity     json.RawMessage `json:"affinity"`
	Tolerations  json.RawMessage `json:"tolerations"`
}

// volume is a volume of Kubernetes with the path at which the job sees it.
type volume struct {
	corev1.Volume `json:",inline"`
	MountPath     string `json:"mount_path"`
	ReadOnly      bool   `json:"read_only"`
}

// reservedVolumes are the names of the pod's own volumes.
var reservedVolumes = []string{volumeInit, volumeSandbox, volumeTemporary, volumeFiles}

// readSection reads the section of a task. Unknown options are refused, and so are options that would have no effect.
func readSection(extra []byte) (s section, err error) {
	if len(extra) == 0 {
		return s, nil
	}
	var outer struct {
		Kubernetes json.RawMessage `json:"kubernetes"`
	}
	if err := json.Unmarshal(extra, &outer); err != nil {
		return s, fmt.Errorf("kubernetes: %w", err)
	}
	if len(outer.Kubernetes) == 0 {
		return s, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(outer.Kubernetes))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		return s, fmt.Errorf("kubernetes: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return s, s.check()
}

func (s *section) check() error {
	if len(s.NodeSelector) > 0 {
		return errors.New("kubernetes/node_selector: not supported yet: choose nodes with scheduling_tag_filter, by tags such as topology.kubernetes.io/zone=a")
	}
	if len(s.Affinity) > 0 {
		return errors.New("kubernetes/affinity: not supported yet: choose nodes with scheduling_tag_filter")
	}
	if len(s.Tolerations) > 0 {
		return errors.New("kubernetes/tolerations: not supported yet: scheduler/kubernetes/tolerated_taints holds for all jobs")
	}
	for i := range s.Volumes {
		v := &s.Volumes[i]
		at := fmt.Sprintf("kubernetes/volumes/%d", i)
		switch {
		case v.Name == "" || v.MountPath == "":
			return fmt.Errorf("%s: name and mount_path are required", at)
		case slices.Contains(reservedVolumes, v.Name) || strings.HasPrefix(v.Name, volumeTmpfs):
			return fmt.Errorf("%s/name: %s is a volume of the pod itself", at, v.Name)
		case v.ConfigMap == nil && v.Secret == nil && v.PersistentVolumeClaim == nil:
			return fmt.Errorf("%s: want a configMap, a secret or a persistentVolumeClaim", at)
		}
	}
	for _, list := range []struct {
		name string
		keys map[string]string
	}{{"labels", s.Labels}, {"annotations", s.Annotations}} {
		for _, key := range sortedKeys(list.keys) {
			if strings.HasPrefix(key, Prefix) {
				return fmt.Errorf("kubernetes/%s/%s: names with %s belong to Weir", list.name, key, Prefix)
			}
		}
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
