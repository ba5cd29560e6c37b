package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/guid"
)

// withFiles is the specification of an operation whose task has these entries in file_paths.
func withFiles(entries string) string {
	return fmt.Sprintf("{pool=files;tasks={work={job_count=1;command=sleep;file_paths=[%s]}}}", entries)
}

func TestFilesOfTheTreeAreFixedWhenAnOperationStarts(t *testing.T) {
	c := withPools(t, "files")
	c.must("write_file", "{path=\"//home/tool\"}", "#!/bin/sh\necho \xff")
	c.set("//home/tool/@executable", "%true")
	c.must("write_file", "{path=\"//home/data\"}", "one")
	id := c.start(withFiles(`"//home/tool";<file_name="in/d";executable=%false>"//home/data"`))
	c.must("write_file", "{path=\"//home/data\"}", "two")
	c.must("remove", "{path=\"//home/tool\"}", "")
	record, _ := c.Operation(operationKeyOf(t, id))
	var got []string
	for _, entry := range record.Spec.Tasks[0].Value.FilePaths {
		f, ok := operation.ReadFile(entry)
		if !ok || f.TreePath != "" {
			t.Fatalf("got %v, want a file with its content", entry)
		}
		got = append(got, fmt.Sprintf("%s %v %q", f.Name, f.Executable.Value(), f.Content))
	}
	if want := "tool true \"#!/bin/sh\\necho \\xff\", in/d false \"one\""; strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
	}
}

func TestFilesThatAnOperationCannotHave(t *testing.T) {
	c := withPools(t, "files")
	c.must("write_file", "{path=\"//home/large\"}", strings.Repeat("x", operation.MaxFileContent/2+1))
	for _, test := range []struct {
		entries string
		words   string
	}{
		{`"//home/none"`, "//home/none"},
		{`"//home"`, "is not a file"},
		{`"//home/large";"//home/large"`, "limit"},
		{`"relative"`, "file_paths"},
		{`{file_name="../out";content=x}`, "file_paths"},
	} {
		c.refused("start_operation", "{operation_type=vanilla;spec="+withFiles(test.entries)+"}", "", wire.CodeGeneric, test.words)
	}
	if list := c.node("list_operations", "{include_counters=%false}"); !strings.Contains(list.String(), "operations=[]") && !strings.Contains(list.String(), `"operations"=[]`) {
		t.Errorf("an operation has started: %s", list)
	}
}

func TestAUserCannotUseFilesThatTheyMayNotRead(t *testing.T) {
	c, tokens := conspiracy(t, "eve")
	c.mustAs(tokens["root"], "create", "{type=map_node;path=\"//home/secret\";attributes={inherit_acl=%false;acl=[]}}", "")
	c.mustAs(tokens["root"], "write_file", "{path=\"//home/secret/key\"}", "key")
	c.mustAs(tokens["root"], "write_file", "{path=\"//home/open\"}", "open")
	start := func(path string) string {
		return fmt.Sprintf("{operation_type=vanilla;spec={pool=p;tasks={work={job_count=1;command=sleep;file_paths=[%q]}}}}", path)
	}
	c.tries(tokens["eve"], nil, attempt{"start_operation", start("//home/secret/key"), ""}, attempt{"start_operation", start("//home/secret/none"), ""})
	if a := c.as(tokens["eve"], "start_operation", start("//home/secret/key"), ""); strings.Contains(string(a.body), "\"key\"") {
		t.Errorf("the refusal has the content: %s", a.body)
	}
	if a := c.as(tokens["root"], "start_operation", start("//home/secret/key"), ""); a.status != http.StatusOK {
		t.Errorf("a user who may read the file is refused: %d %s", a.status, a.body)
	}
}

func operationKeyOf(t *testing.T, id string) server.OperationKey {
	t.Helper()
	parsed, err := guid.Parse(id)
	if err != nil {
		t.Fatal(err)
	}
	return server.OperationKey{ID: parsed}
}
