package cli

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/weirhq/weir/client"
)

// beginningOfID matches the start of an operation's id, but no complete id: an id has four parts.
var beginningOfID = regexp.MustCompile(`^[0-9a-f]{1,8}(-[0-9a-f]{0,8}){0,2}$`)

// operation completes the start of an operation's id. It returns any other name unchanged.
func (s *session) operation(name string) (string, error) {
	if !beginningOfID.MatchString(name) {
		return name, nil
	}
	var found []string
	for o, err := range s.Operations(s.ctx, client.OperationFilter{Text: name, Attributes: []string{"id"}}) {
		if err != nil {
			return "", err
		}
		if strings.HasPrefix(o.ID, name) {
			found = append(found, o.ID)
		}
		if len(found) > 3 {
			break
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("no operation has an id that starts with %s: weir op list shows ids", name)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("several operations have ids that start with %s: %s: give more of the id", name, strings.Join(found, ", "))
}
