package core

import (
	"bytes"
	"fmt"
	"reflect"

	"github.com/weirhq/weir/internal/value/imprint"
)

// saved is the schema of a core. Every field is saved unless it has the tag
// `save:"-"`, which is for what a fork does not have either: memory that is used
// again, and what can be computed from other fields. TestEveryFieldOfACoreIsSaved
// fails for a field that cannot be saved.
func saved() (*imprint.Schema, error) {
	return imprint.Describe([]reflect.Type{reflect.TypeFor[Core]()})
}

// Save returns the whole state, for Load. The saved core behaves like a fork.
func (c *Core) Save() ([]byte, error) {
	schema, err := saved()
	if err != nil {
		return nil, err
	}
	return schema.Writer().Append(schema.Append(nil), 0, c.Fork()), nil
}

// Load returns a core that behaves like the saved one. Only a build whose cores have
// the same fields can load it; otherwise the error names a field that differs.
func Load(data []byte) (*Core, error) {
	own, err := saved()
	if err != nil {
		return nil, err
	}
	schema, rest, err := imprint.ReadSchema(data)
	if err != nil {
		return nil, fmt.Errorf("the types of a saved core: %w", err)
	}
	if head := own.Append(nil); !bytes.Equal(head, data[:len(data)-len(rest)]) {
		if err := schema.Bind([]reflect.Type{reflect.TypeFor[Core]()}, true); err != nil {
			return nil, fmt.Errorf("another build saved this core: %w", err)
		}
	} else {
		schema = own
	}
	c := &Core{}
	if rest, err = schema.Reader().Read(rest, 0, c); err != nil {
		return nil, fmt.Errorf("a saved core: %w", err)
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%w: %d bytes follow a saved core", imprint.ErrFormat, len(rest))
	}
	if err := c.Verify(); err != nil {
		return nil, fmt.Errorf("a saved core is damaged: %w", err)
	}
	c.painter = painter{renumbered: true}
	return c, nil
}
