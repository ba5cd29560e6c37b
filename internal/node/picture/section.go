package picture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirhq/weir/internal/node/workload"
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

	// These decide on which nodes the task's pods may run.
	NodeSelector map[string]string   `json:"node_selector"`
	Affinity     *corev1.Affinity    `json:"affinity"`
	Tolerations  []corev1.Toleration `json:"tolerations"`
}

// isChoosy reports whether the pods demand something of their nodes, or tolerate more than others.
func (s *section) isChoosy() bool {
	return len(s.NodeSelector)+len(s.Tolerations) > 0 || s.Affinity != nil ||
		slices.ContainsFunc(s.Volumes, func(v volume) bool { return v.PersistentVolumeClaim != nil })
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
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) && wrong.Field != "" {
			return s, fmt.Errorf("kubernetes/%s: want %s, not %s", strings.ReplaceAll(wrong.Field, ".", "/"), wordOf(wrong.Type), valueWords[strings.Fields(wrong.Value)[0]])
		}
		return s, fmt.Errorf("kubernetes: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return s, s.check()
}

func (s *section) check() error {
	if err := workload.CheckNodeChoice(s.NodeSelector, s.Affinity, s.Tolerations); err != nil {
		return fmt.Errorf("kubernetes/%w", err)
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

// valueWords are the words for values of JSON.
var valueWords = map[string]string{"object": "a map", "array": "a list", "number": "a number", "string": "a string", "bool": "true or false"}

// wordOf returns the words for what a type accepts.
func wordOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct, reflect.Pointer:
		return "a map"
	}
	return "a whole number"
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
