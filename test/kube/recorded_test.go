package kube

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

// weirUser is the scheduler's account.
const weirUser = "system:serviceaccount:weir-system:weir"

// auditPolicy makes the API server record what the scheduler calls.
const auditPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
"rules": [{"level": "Metadata", "users": ["` + weirUser + `"]}, {"level": "None"}]}`

// recordedCall is a line of the API server's record.
type recordedCall struct {
	Verb      string
	ObjectRef *struct{ Resource, Subresource, APIGroup, Namespace string }
	// ResponseStatus has the code of the answer.
	ResponseStatus struct{ Code int }
}

// seldomUsed are permissions that a run of these tests need not use, by the reason.
var seldomUsed = map[string][]string{
	"a pod or an object is read when the answer to its creation was lost": {"/pods: read", "weir.dev/weirpools: read", "weir.dev/weirtrees: read"},
	"the tests have no owner of this kind": {"/replicationcontrollers: read", "apps/daemonsets: read", "apps/statefulsets: read", "batch/jobs: read", "batch/cronjobs: read",
		"jobset.x-k8s.io/jobsets: read"},
	"the tests have no such claim":                {"/persistentvolumeclaims: read", "/persistentvolumes: read"},
	"pretended kubelets give no figures":          {"/nodes/stats: read", "/pods/resize: patch"},
	"API servers without WebSockets":              {"/pods/exec: create"},
	"files go a while after the last of the jobs": {"/configmaps: delete"},
}

// kindOf makes one permission of get, list and watch: whether a server streams lists decides which of them is used.
func kindOf(permission string) string {
	for _, verb := range []string{"get", "list", "watch"} {
		if resource, found := strings.CutSuffix(permission, ": "+verb); found {
			return resource + ": read"
		}
	}
	return permission
}

// checkPermissions compares what the scheduler called, as the API server has recorded it, with what the chart permits: no call
// was forbidden, and no permission is unused. It needs a run of all tests.
func (c *controlPlane) checkPermissions() error {
	if run := flag.Lookup("test.run"); run == nil || run.Value.String() != "" {
		return nil
	}
	called, forbidden, err := c.recorded()
	if err != nil {
		return err
	}
	permitted, err := permissionsOf("../../packaging/kubernetes/weir.yaml")
	if err != nil {
		return err
	}
	var problems []error
	for _, permission := range slices.Sorted(maps.Keys(forbidden)) {
		// A server that has just started forbids what it permits later, and admission forbids single pods.
		if !called[permission] {
			problems = append(problems, fmt.Errorf("the scheduler lacks %s", permission))
		}
	}
	used := map[string]bool{}
	for permission := range called {
		used[kindOf(permission)] = true
	}
	for _, seldom := range seldomUsed {
		for _, permission := range seldom {
			used[permission] = true
		}
	}
	for _, permission := range permitted {
		if !used[kindOf(permission)] {
			problems = append(problems, fmt.Errorf("the chart permits %s, which no test uses", permission))
		}
	}
	fmt.Printf("the scheduler used %d of %d permissions: %s\n", len(called), len(permitted), strings.Join(slices.Sorted(maps.Keys(called)), "; "))
	return errors.Join(problems...)
}

// recorded returns the permissions that the scheduler used, and those with which it was refused.
func (c *controlPlane) recorded() (called, forbidden map[string]bool, err error) {
	file, err := os.Open(filepath.Join(c.directory, "audit.log"))
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	called, forbidden = map[string]bool{}, map[string]bool{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var call recordedCall
		if err := json.Unmarshal(lines.Bytes(), &call); err != nil {
			return nil, nil, err
		}
		if call.ObjectRef == nil {
			continue // addresses without objects, such as /livez
		}
		resource := call.ObjectRef.Resource
		if call.ObjectRef.Subresource != "" {
			resource += "/" + call.ObjectRef.Subresource
		}
		permission := fmt.Sprintf("%s/%s: %s", call.ObjectRef.APIGroup, resource, call.Verb)
		if call.ResponseStatus.Code == http.StatusForbidden {
			forbidden[permission] = true
		} else {
			called[permission] = true
		}
	}
	return called, forbidden, lines.Err()
}

// permissionsOf returns the permissions of the roles in a file, one verb each.
func permissionsOf(name string) (list []string, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	documents := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		var raw runtime.RawExtension
		if err := documents.Decode(&raw); errors.Is(err, io.EOF) {
			slices.Sort(list)
			return slices.Compact(list), nil
		} else if err != nil {
			return nil, err
		}
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(raw.Raw, nil, nil)
		if err != nil {
			continue // of a kind that has no permissions
		}
		var rules []rbacv1.PolicyRule
		switch o := object.(type) {
		case *rbacv1.ClusterRole:
			rules = o.Rules
		case *rbacv1.Role:
			rules = o.Rules
		}
		for _, rule := range rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						list = append(list, fmt.Sprintf("%s/%s: %s", group, resource, verb))
					}
				}
			}
		}
	}
}
