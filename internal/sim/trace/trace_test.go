package trace

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/internal/value/resource"
)

func open(t testing.TB, name string) io.Reader {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(data)
}

// sharedTrace opens a complete recorded trace, which is stored beside the repository.
func sharedTrace(t *testing.T, name string) io.Reader {
	t.Helper()
	file, err := os.Open(filepath.Join("../../../../shared/traces", name))
	if err != nil {
		t.Skipf("SKIPPED: the whole trace is not here: %v", err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

func TestALogInTheStandardWorkloadFormatBecomesOperations(t *testing.T) {
	log, err := ReadSWF("nasa.swf", open(t, "nasa-excerpt.swf"), SWFOptions{Parallel: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := log.Start, time.Unix(749458803, 0).UTC(); !got.Equal(want) {
		t.Errorf("the log starts at %v, want %v", got, want)
	}
	wantNodes := []Nodes{{Name: "node", Count: 128, Resources: resource.Amounts{resource.UserSlots: 1, resource.CPU: 100, resource.Memory: 4 << 30}}}
	if diff := cmp.Diff(wantNodes, log.Nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if len(log.Operations) != 88 {
		t.Errorf("%d operations, want 88", len(log.Operations))
	}
	want := Operation{
		Name: "job-59", Pool: 2, User: 2, Submit: 26613 * time.Second, Run: 716 * time.Second, Jobs: 32, Gang: true,
		Resources: resource.Amounts{resource.UserSlots: 1, resource.CPU: 100},
	}
	if diff := cmp.Diff(want, log.Operations[6]); diff != "" {
		t.Errorf("the seventh operation (-want +got):\n%s", diff)
	}
	if first := log.Operations[5]; first.Jobs != 1 || first.Gang {
		t.Errorf("one processor makes no gang: %+v", first)
	}
	if got := log.Users[want.User]; got != "user-4" {
		t.Errorf("the user of job 59 is %q, want user-4", got)
	}
}

const swfHeader = "; MaxNodes: 4\n; MaxProcs: 16\n; Note: x\n;\n"

// swfLine returns the line of a job with these fields, and -1 in all others.
func swfLine(fields map[int]string) string {
	line := make([]string, swfFieldCount)
	for i := range line {
		line[i] = "-1"
		if text, ok := fields[i]; ok {
			line[i] = text
		}
	}
	return strings.Join(line, " ") + "\n"
}

func TestUnknownFieldsOfALogAreReplacedOrSkipped(t *testing.T) {
	text := swfHeader +
		swfLine(map[int]string{swfJob: "1", swfSubmit: "10", swfRun: "5", swfProcessors: "-1", swfRequestedProcessors: "6", swfUsedMemory: "2048", swfUser: "3"}) +
		swfLine(map[int]string{swfJob: "2", swfSubmit: "5", swfRun: "7", swfProcessors: "2"}) +
		swfLine(map[int]string{swfJob: "3", swfSubmit: "6", swfRun: "-1", swfProcessors: "2"}) +
		swfLine(map[int]string{swfJob: "4", swfSubmit: "6", swfRun: "0", swfProcessors: "2"}) +
		swfLine(map[int]string{swfJob: "5", swfSubmit: "6", swfRun: "9"}) +
		swfLine(map[int]string{swfJob: "6", swfRun: "9", swfProcessors: "1"})
	log, err := ReadSWF("x", strings.NewReader(text), SWFOptions{JobCPU: 4, Memory: UsedMemory, DefaultMemory: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	want := &Log{
		Nodes: []Nodes{{Name: "node", Count: 4, Resources: resource.Amounts{resource.UserSlots: 4, resource.CPU: 400, resource.Memory: 16 << 30}}},
		Operations: []Operation{
			{Name: "job-2", Pool: 1, User: 1, Submit: 5 * time.Second, Run: 7 * time.Second, Jobs: 1,
				Resources: resource.Amounts{resource.UserSlots: 1, resource.CPU: 200, resource.Memory: 2 << 20}},
			{Name: "job-1", Submit: 10 * time.Second, Run: 5 * time.Second, Jobs: 2,
				Resources: resource.Amounts{resource.UserSlots: 1, resource.CPU: 300, resource.Memory: 3 * 2 << 20}},
		},
		Pools: []string{"user-3", "user-unknown"}, Users: []string{"user-3", "user-unknown"},
		Skipped: []Skipped{{"never ran", 2}, {"the number of processors is unknown", 1}, {"the submit time is unknown", 1}},
	}
	if diff := cmp.Diff(want, log); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func TestASpanCutsAndScalesALog(t *testing.T) {
	text := swfHeader
	for i := range 10 {
		text += swfLine(map[int]string{swfJob: fmt.Sprint(i), swfSubmit: fmt.Sprint(100 * i), swfRun: "50", swfProcessors: "1"})
	}
	log, err := ReadSWF("x", strings.NewReader(text), SWFOptions{
		Span: Span{From: 200 * time.Second, To: 800 * time.Second, Scale: 0.1, MaxOperations: 4},
	})
	if err != nil {
		t.Fatal(err)
	}
	var submits []time.Duration
	for _, o := range log.Operations {
		submits = append(submits, o.Submit)
		if o.Run != 5*time.Second {
			t.Errorf("%s runs %v, want 5s", o.Name, o.Run)
		}
	}
	if want := []time.Duration{0, 10 * time.Second, 20 * time.Second, 30 * time.Second}; !slices.Equal(submits, want) {
		t.Errorf("submit times %v, want %v", submits, want)
	}
	wantSkipped := []Skipped{
		{"submitted outside the selected span", 4},
		{"beyond the selected number of operations", 2},
	}
	if diff := cmp.Diff(wantSkipped, log.Skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
}

func TestCompressedLogsAreReadLikePlainOnes(t *testing.T) {
	plain, err := ReadSWF("x", open(t, "nasa-excerpt.swf"), SWFOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var zipped bytes.Buffer
	writer := gzip.NewWriter(&zipped)
	io.Copy(writer, open(t, "nasa-excerpt.swf"))
	writer.Close()
	cut := zipped.Bytes()[:zipped.Len()/2]
	unzipped, err := ReadSWF("x", &zipped, SWFOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plain, unzipped); diff != "" {
		t.Errorf("plain and compressed differ:\n%s", diff)
	}
	if _, err := ReadSWF("cut.gz", bytes.NewReader(cut), SWFOptions{}); err == nil || !strings.Contains(err.Error(), "cut.gz: after line") {
		t.Errorf("half a file: %v", err)
	}
	if _, err := ReadSWF("bad.gz", strings.NewReader("\x1f\x8bno"), SWFOptions{}); err == nil || !strings.HasPrefix(err.Error(), "bad.gz: ") {
		t.Errorf("no gzip: %v", err)
	}
}

func TestWrongLogsAreRefusedWithTheirLines(t *testing.T) {
	good := swfLine(map[int]string{swfJob: "1", swfSubmit: "10", swfRun: "5", swfProcessors: "1"})
	tests := []struct{ name, text, want string }{
		{"too few fields", swfHeader + good + "1 2 3\n", "x:6:1: has 3 fields; a job has 18"},
		{"no number", swfHeader + strings.Replace(good, "5", "five", 1), `x:5:1: field 4 is "five", which is no number`},
		{"not finite", strings.Replace(good, "5", "NaN", 1), `x:1:1: field 4 is "NaN", which is no number`},
		{"absurd time", strings.Replace(good, "10", "1e10", 1), "x:1:1: field 2 is 1e+10 seconds, more than anybody has waited"},
		{"absurd processors", swfLine(map[int]string{swfSubmit: "1", swfRun: "1", swfProcessors: "1e12"}), "x:1:1: has 1e+12 processors"},
		{"absurd memory", swfLine(map[int]string{swfSubmit: "1", swfRun: "1", swfProcessors: "1", swfUsedMemory: "1e17"}), "x:1:1: needs more memory than anybody has"},
		{"endless line", good + strings.Repeat("1", longestLine+1), "x:2:1: the line has more than 65536 characters"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := ReadSWF("x", strings.NewReader(test.text), SWFOptions{Memory: UsedMemory})
			if err == nil || err.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
	_, err := ReadSWF("x", strings.NewReader(strings.Repeat("bad\n", 100)), SWFOptions{})
	if err == nil || !strings.HasSuffix(err.Error(), "reading stopped after 20 problems") {
		t.Errorf("a hundred wrong lines: %v", err)
	}
}

func TestAlibabaPodsAndNodesBecomeOperations(t *testing.T) {
	pods := strings.Join(alibabaPods, ",") + `
a,12000,16384,1,460,,LS,Running,100,400,120
b,6000,12288,2,1000,V100M16|V100M32,BE,Running,50,60,55
c,1000,1024,0,0,,LS,Failed,60,60,60
d,1000,1024,1,1000,,LS,Pending,60,70,
`
	nodes := "model,sn,gpu,cpu_milli,memory_mib\nT4,x,2,32000,1024\nT4,y,2,32000,1024\nT4,w,4,32000,1024\n,z,0,96000,2048\n"
	read := func(options AlibabaOptions) *Log {
		t.Helper()
		log, err := ReadAlibaba("pods.csv", strings.NewReader(pods), "nodes.csv", strings.NewReader(nodes), options)
		if err != nil {
			t.Fatal(err)
		}
		return log
	}
	amounts := func(slots, cpu, memoryMiB, gpu int64) resource.Amounts {
		return resource.Amounts{resource.UserSlots: slots, resource.CPU: cpu * 100, resource.Memory: memoryMiB << 20, resource.GPU: gpu}
	}
	want := &Log{
		Nodes: []Nodes{
			{Name: "T4", Count: 2, Resources: amounts(256, 32, 1024, 2), Tags: []string{"T4"}},
			{Name: "T4-2", Count: 1, Resources: amounts(256, 32, 1024, 4), Tags: []string{"T4"}},
			{Name: "cpu", Count: 1, Resources: amounts(256, 96, 2048, 0)},
		},
		Operations: []Operation{
			{Name: "b", Pool: 1, User: 1, Submit: 50 * time.Second, Run: 5 * time.Second, Jobs: 1, Resources: amounts(1, 6, 12288, 2), Filter: "V100M16 | V100M32"},
			{Name: "c", Submit: 60 * time.Second, Run: time.Second, Jobs: 1, Resources: amounts(1, 1, 1024, 0)},
			{Name: "a", Submit: 100 * time.Second, Run: 280 * time.Second, Jobs: 1, Resources: amounts(1, 12, 16384, 1)},
		},
		Pools: []string{"LS", "BE"}, Users: []string{"LS", "BE"},
		Skipped: []Skipped{{"never scheduled, so that its running time is unknown", 1}},
	}
	if diff := cmp.Diff(want, read(AlibabaOptions{})); diff != "" {
		t.Errorf("whole GPUs (-want +got):\n%s", diff)
	}
	parts := read(AlibabaOptions{GPUThousandths: true, UserSlots: 32})
	if got := parts.Operations[2].Resources[resource.GPU]; got != 460 {
		t.Errorf("460 thousandths of a GPU became %d", got)
	}
	if got := parts.Operations[0].Resources[resource.GPU]; got != 2000 {
		t.Errorf("two GPUs became %d thousandths", got)
	}
	if got := parts.Nodes[0].Resources; got != amounts(32, 32, 1024, 2000) {
		t.Errorf("a node with two GPUs has %v", got)
	}
}

func TestExcerptsOfTheAlibabaTraceAreRead(t *testing.T) {
	log, err := ReadAlibaba("pods", open(t, "pods-excerpt.csv"), "nodes", open(t, "nodes-excerpt.csv"), AlibabaOptions{})
	if err != nil {
		t.Fatal(err)
	}
	nodes, skipped := 0, 0
	for _, n := range log.Nodes {
		nodes += n.Count
	}
	for _, s := range log.Skipped {
		skipped += s.Count
	}
	if nodes != 26 || len(log.Operations)+skipped != 72 {
		t.Errorf("%d nodes, %d operations, %d skipped", nodes, len(log.Operations), skipped)
	}
}

func TestWrongTablesAreRefusedWithTheirLines(t *testing.T) {
	header := strings.Join(alibabaPods, ",") + "\n"
	nodeHeader := strings.Join(alibabaNodes, ",") + "\n"
	tests := []struct{ name, pods, nodes, want string }{
		{"no lines", "", nodeHeader, "pods:1:1: the file is empty; its first line names the columns name, cpu_milli"},
		{"a column is missing", strings.Replace(header, "qos", "class", 1), nodeHeader, "pods:1:1: there is no column qos; needed are name"},
		{"a field is missing", header + "a,1,2\n", nodeHeader, "pods:2:1: wrong number of fields"},
		{"a quote is open", header + "\"a,1\n", nodeHeader, "pods:2:1: extraneous or missing \" in quoted-field"},
		{"no number", header + "a,x,1,0,0,,LS,Running,1,2,1\n", nodeHeader, `pods:2:1: cpu_milli is "x", which is no number from 0 to 1e15`},
		{"negative", header + "a,-7,1,0,0,,LS,Running,1,2,1\n", nodeHeader, `pods:2:1: cpu_milli is "-7", which is no number from 0 to 1e15`},
		{"no creation time", header + "a,1,1,0,0,,LS,Running,,2,1\n", nodeHeader, "pods:2:1: the creation or deletion time is missing"},
		{"no class", header + "a,1,1,0,0,,,Running,1,2,1\n", nodeHeader, "pods:2:1: a pod needs a name and a qos"},
		{"a node without memory", header, nodeHeader + "n,1000,,0,\n", "nodes:2:1: a node needs cpu_milli and memory_mib"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := ReadAlibaba("pods", strings.NewReader(test.pods), "nodes", strings.NewReader(test.nodes), AlibabaOptions{})
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestTheWholeNASALogIsRead(t *testing.T) {
	log, err := ReadSWF("nasa", sharedTrace(t, "NASA-iPSC-1993-3.1-cln.swf.gz"), SWFOptions{})
	if err != nil {
		t.Fatal(err)
	}
	jobs, work := 0, 0.0
	for _, o := range log.Operations {
		jobs += o.Jobs
		work += float64(o.Jobs) * o.Run.Seconds()
	}
	// 173 of 18,239 jobs never ran; the others are all the work in the trace.
	if len(log.Operations) != 18066 || log.Skipped[0].Count != 173 || work != 474_238_015 {
		t.Errorf("%d operations, %d jobs, %.0f processor seconds, skipped %v", len(log.Operations), jobs, work, log.Skipped)
	}
}

func TestTheWholeAlibabaTraceIsRead(t *testing.T) {
	log, err := ReadAlibaba("pods", sharedTrace(t, "openb_pod_list_default.csv.gz"),
		"nodes", sharedTrace(t, "openb_node_list_all_node.csv.gz"), AlibabaOptions{})
	if err != nil {
		t.Fatal(err)
	}
	nodes, gpus := 0, int64(0)
	for _, n := range log.Nodes {
		nodes += n.Count
		gpus += int64(n.Count) * n.Resources[resource.GPU]
	}
	if nodes != 1523 || gpus != 6212 || len(log.Operations) != 8152-897 {
		t.Errorf("%d nodes, %d GPUs, %d operations, skipped %v", nodes, gpus, len(log.Operations), log.Skipped)
	}
}

func FuzzReadSWF(f *testing.F) {
	f.Add([]byte(swfHeader + swfLine(map[int]string{swfSubmit: "1", swfRun: "2", swfProcessors: "3"})))
	f.Add([]byte("; MaxProcs: 99999999999\n1 2 3"))
	f.Add([]byte("\x1f\x8b"))
	f.Fuzz(func(t *testing.T, data []byte) {
		log, err := ReadSWF("fuzz", bytes.NewReader(data), SWFOptions{Memory: RequestedMemory, JobCPU: 3})
		if (log == nil) == (err == nil) {
			t.Fatalf("log %v, error %v", log, err)
		}
		if log != nil {
			checkLog(t, log)
		}
	})
}

func FuzzReadAlibaba(f *testing.F) {
	f.Add([]byte(strings.Join(alibabaPods, ",")+"\na,1,1,1,500,T4|1,LS,Running,1,2,1\n"), []byte(strings.Join(alibabaNodes, ",")+"\nn,1,1,1,T4\n"))
	f.Fuzz(func(t *testing.T, pods, nodes []byte) {
		log, err := ReadAlibaba("pods", bytes.NewReader(pods), "nodes", bytes.NewReader(nodes), AlibabaOptions{GPUThousandths: true})
		if (log == nil) == (err == nil) {
			t.Fatalf("log %v, error %v", log, err)
		}
		if log != nil {
			checkLog(t, log)
		}
	})
}

// checkLog checks the invariants of a log.
func checkLog(t *testing.T, log *Log) {
	t.Helper()
	last := time.Duration(0)
	for _, o := range log.Operations {
		if o.Submit < last || o.Run <= 0 || o.Jobs <= 0 || !o.Resources.IsNonNegative() || o.Resources.IsZero() ||
			int(o.Pool) >= len(log.Pools) || int(o.User) >= len(log.Users) {
			t.Fatalf("operation %+v after %v", o, last)
		}
		last = o.Submit
	}
	for _, n := range log.Nodes {
		if n.Count <= 0 || !n.Resources.IsNonNegative() {
			t.Fatalf("nodes %+v", n)
		}
	}
}
