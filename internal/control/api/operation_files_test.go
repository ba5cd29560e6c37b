package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/engine/operation"
	"github.com/weirhq/weir/internal/value/checksum"
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
	for _, test := range []struct {
		entries string
		words   string
	}{
		{`"//home/none"`, "//home/none"},
		{`"//home"`, "is not a file"},
		{`{file_name=f;sha256="` + checksum.Of([]byte("of nobody")).String() + `"}`, "has uploaded no content"},
		{`{file_name=f;sha256=abc}`, "file_paths"},
		{`"relative"`, "file_paths"},
		{`{file_name="../out";content=x}`, "file_paths"},
	} {
		c.refused("start_operation", "{operation_type=vanilla;spec="+withFiles(test.entries)+"}", "", wire.CodeGeneric, test.words)
	}
	if list := c.node("list_operations", "{include_counters=%false}"); !strings.Contains(list.String(), "operations=[]") && !strings.Contains(list.String(), `"operations"=[]`) {
		t.Errorf("an operation has started: %s", list)
	}
}

func TestLargeFilesOfAnOperationAreNamedByTheirSum(t *testing.T) {
	directory := t.TempDir()
	c := startCluster(t, directory)
	c.must("create", `{type=scheduler_pool_tree;attributes={name=default}}`, "")
	c.must("create", `{type=scheduler_pool;attributes={name=files;pool_tree=default}}`, "")
	c.set("//sys/pool_trees/@default_tree", "default")
	tree, sent, given := contentOf("tree"), contentOf("sent"), contentOf("given")
	c.must("write_file", `{path="//home/large"}`, tree)
	sum := checksum.Of([]byte(sent)).String()
	if got := c.must("find_uploads", fmt.Sprintf(`{sha256=[%q]}`, sum), ""); got != "[]" {
		t.Errorf("found %s", got)
	}
	c.must("upload_file", fmt.Sprintf(`{sha256=%q}`, sum), sent)
	if got := c.must("find_uploads", fmt.Sprintf(`{sha256=[%q]}`, sum), ""); !strings.Contains(got, sum) {
		t.Errorf("found %s", got)
	}
	// An archive that becomes a directory has a sum, however small it is.
	id := c.start(withFiles(fmt.Sprintf(`"//home/large";{file_name=sent;sha256=%q};{file_name=given;content=%q};{file_name=d;content=archive;unpack=%%true}`, sum, given)))
	c.must("remove", `{path="//home/large"}`, "")
	record, _ := c.Operation(operationKeyOf(t, id))
	for i, want := range []string{tree, sent, given, "archive"} {
		f, _ := operation.ReadFile(record.Spec.Tasks[0].Value.FilePaths[i])
		if f.Unpack != (want == "archive") || f.Sum != checksum.Of([]byte(want)) || f.Size != int64(len(want)) || len(f.Content) > 0 {
			t.Errorf("file %d is %s with %d bytes", i, f.Sum, f.Size)
		}
	}
	uses, err := c.Server.Store().OperationContents(t.Context(), int32(record.Number), 0)
	if err != nil || len(uses) != 4 {
		t.Errorf("the operation uses %v, %v", uses, err)
	}
	for _, a := range []struct{ parameters, content string }{
		{`{sha256=abc}`, "x"}, {fmt.Sprintf(`{sha256=%q}`, sum), "another"}, {`{}`, "x"},
	} {
		c.refused("upload_file", a.parameters, a.content, wire.CodeGeneric)
	}
}

// Knowing the sum of a content is not a permission to read it.
func TestAUserCannotUseContentsThatAnotherUploaded(t *testing.T) {
	c, tokens := conspiracy(t, "ann", "eve")
	content := contentOf("secret")
	sum := checksum.Of([]byte(content)).String()
	c.mustAs(tokens["ann"], "upload_file", fmt.Sprintf(`{sha256=%q}`, sum), content)
	if a := c.as(tokens["eve"], "find_uploads", fmt.Sprintf(`{sha256=[%q]}`, sum), ""); strings.Contains(a.body, sum) {
		t.Errorf("got %s", a.body)
	}
	start := fmt.Sprintf(`{operation_type=vanilla;spec={pool=p;tasks={work={job_count=1;command=sleep;file_paths=[{file_name=f;sha256=%q}]}}}}`, sum)
	if a := c.as(tokens["eve"], "start_operation", start, ""); a.status == http.StatusOK || !strings.Contains(a.body, "has uploaded no content") {
		t.Errorf("got %d %s", a.status, a.body)
	}
	if a := c.as(tokens["ann"], "start_operation", start, ""); a.status != http.StatusOK {
		t.Errorf("got %d %s", a.status, a.body)
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
