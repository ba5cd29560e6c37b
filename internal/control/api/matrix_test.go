package api

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/auth"
)

// samples are the parameters and data of every command for the matrix of commands and people.
// USER is the caller. OPERATION and JOB are running ones of the owner, created for the command.
// TRANSACTION is one of the owner's, NODE is a node, HASH is the hash of one of the owner's
// tokens.
var samples = map[string]struct{ parameters, data string }{
	"get":                 {parameters: `{path="//sys/owned/doc"}`},
	"list":                {parameters: `{path="//sys/owned"}`},
	"exists":              {parameters: `{path="//sys/owned/doc"}`},
	"set":                 {`{path="//sys/owned/doc"}`, "1"},
	"multiset_attributes": {`{path="//sys/owned/doc/@"}`, "{note=1}"},
	"create":              {parameters: `{type=document;path="//sys/owned/created-USER"}`},
	"remove":              {parameters: `{path="//sys/owned/removed-USER"}`},
	"copy":                {parameters: `{source_path="//sys/owned/doc";destination_path="//sys/owned/copied-USER"}`},
	"move":                {parameters: `{source_path="//sys/owned/moved-USER";destination_path="//sys/owned/there-USER"}`},
	"link":                {parameters: `{target_path="//sys/owned/doc";link_path="//sys/owned/linked-USER"}`},
	"write_file":          {`{path="//sys/owned/file-USER"}`, "x"},
	"read_file":           {parameters: `{path="//sys/owned/file"}`},
	"check_permission":    {parameters: `{path="//sys/owned";permission=read}`},

	"start_transaction":  {parameters: `{}`},
	"ping_transaction":   {parameters: `{transaction_id="TRANSACTION"}`},
	"commit_transaction": {parameters: `{transaction_id="TRANSACTION"}`},
	"abort_transaction":  {parameters: `{transaction_id="TRANSACTION"}`},
	"lock":               {parameters: `{transaction_id="TRANSACTION";path="//sys/owned/doc"}`},
	"unlock":             {parameters: `{transaction_id="TRANSACTION";path="//sys/owned/doc"}`},

	"start_operation":             {parameters: `{operation_type=vanilla;spec=` + job("p", "sleep", 1) + `}`},
	"abort_operation":             {parameters: `{operation_id="OPERATION"}`},
	"complete_operation":          {parameters: `{operation_id="OPERATION"}`},
	"suspend_operation":           {parameters: `{operation_id="OPERATION"}`},
	"resume_operation":            {parameters: `{operation_id="OPERATION"}`},
	"update_operation_parameters": {parameters: `{operation_id="OPERATION";parameters={weight=2.}}`},
	"patch_operation_spec":        {parameters: `{operation_id="OPERATION";patches=[{path="/max_failed_job_count";value=2}]}`},
	"get_operation":               {parameters: `{operation_id="OPERATION"}`},
	"list_operations":             {parameters: `{}`},
	"list_operation_events":       {parameters: `{operation_id="OPERATION"}`},
	"explain_operation":           {parameters: `{operation_id="OPERATION"}`},
	"forecast_operation":          {parameters: `{operation_id="OPERATION"}`},
	"advise_operation":            {parameters: `{operation_id="OPERATION"}`},
	"explain_pool":                {parameters: `{pool="p"}`},
	"forecast_pool":               {parameters: `{pool="p"}`},
	"explain_cluster":             {},
	"explain_job":                 {parameters: `{job_id="JOB"}`},

	"list_jobs":            {parameters: `{operation_id="OPERATION"}`},
	"get_job":              {parameters: `{job_id="JOB"}`},
	"get_job_stderr":       {parameters: `{job_id="JOB"}`},
	"get_job_fail_context": {parameters: `{job_id="JOB"}`},
	"get_job_input":        {parameters: `{job_id="JOB"}`},
	"prune_images":         {parameters: `{component=cluster_node;address="admin:1"}`},
	"poll_job_shell":       {parameters: `{job_id="JOB";parameters={operation=spawn}}`},
	"abort_job":            {parameters: `{job_id="JOB"}`},
	"signal_job":           {parameters: `{job_id="JOB";signal_name=SIGUSR1}`},
	"abandon_job":          {parameters: `{job_id="JOB"}`},

	"upload_file":    {`{sha256="2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"}`, "x"},
	"find_uploads":   {parameters: `{sha256=[]}`},
	"list_artifacts": {parameters: `{operation_id="OPERATION"}`},
	"get_artifacts":  {parameters: `{operation_id="OPERATION";job_id="JOB"}`},

	"plan_pools":              {parameters: `{pool_tree=applied;document={nodes_filter=nowhere;pools={}}}`},
	"apply_pools":             {parameters: `{pool_tree=applied;document={nodes_filter=nowhere;pools={"USER"={}}}}`},
	"export_pools":            {parameters: `{pool_tree=applied}`},
	"transfer_pool_resources": {parameters: `{pool_tree=moving;source_pool=a;destination_pool=b;resource_delta={}}`},
	"get_history":             {parameters: `{pool_tree=default}`},
	"get_report":              {parameters: `{report=guarantees;pool_tree=default}`},

	"get_cluster":               {parameters: `{}`},
	"list_nodes":                {parameters: `{}`},
	"list_pods":                 {parameters: `{}`},
	"list_events":               {parameters: `{}`},
	"list_audit":                {parameters: `{}`},
	"list_notification_targets": {},
	"test_notification":         {parameters: `{target=nobody}`},

	"add_maintenance":    {parameters: `{component=cluster_node;address="NODE";type=disable_write_sessions;comment=x}`},
	"remove_maintenance": {parameters: `{component=cluster_node;address="NODE";all=%true}`},
	"backup":             {parameters: `{}`},
	"list_journal":       {parameters: `{}`},
	"export_journal":     {parameters: `{}`},
	"list_scenarios":     {parameters: `{}`},
	"what_if":            {parameters: `{document={for="1m"}}`},
	"simulate":           {parameters: fmt.Sprintf(`{scenario=%q}`, smallScenario)},

	"add_member":       {parameters: `{group=team;member=somebody}`},
	"remove_member":    {parameters: `{group=team;member=somebody}`},
	"issue_token":      {parameters: `{user=boss}`},
	"list_user_tokens": {parameters: `{user=boss}`},
	"revoke_token":     {parameters: `{token_sha256="HASH"}`},
	"get_current_user": {parameters: `{}`},

	"execute_batch":          {parameters: `{requests=[{command=get_version;parameters={}}]}`},
	"get_version":            {parameters: `{}`},
	"get_supported_features": {parameters: `{}`},
	"generate_timestamp":     {parameters: `{}`},
	"parse_ypath":            {parameters: `{path="//sys"}`},
	"discover_proxies":       {parameters: `{}`},
	"build_snapshot":         {parameters: `{}`},
}

// class is the verdict of the permission check on a request.
type class string

const (
	isPermitted       class = "permitted"
	isDenied          class = "denied"
	isUnauthenticated class = "unauthenticated"
)

// people send every command; each has the verdict that the table states. The test uses this
// order. Owners come last, because their commands end things.
var people = []struct {
	name string
	may  func(p permission) class
}{
	{"no token", func(p permission) class { return either(p.public, isPermitted, isUnauthenticated) }},
	{"wrong token", func(permission) class { return isUnauthenticated }},
	{"other user", func(p permission) class { return either(p.users, isPermitted, isDenied) }},
	{"administrator", func(p permission) class { return either(p.administrators, isPermitted, isDenied) }},
	{"superuser", func(permission) class { return isPermitted }},
	{"owner", func(p permission) class { return either(p.owners, isPermitted, isDenied) }},
}

func either(first bool, a, b class) class {
	if first {
		return a
	}
	return b
}

// classOf returns the class of an answer. A request that is refused for a reason other than
// permission was permitted.
func classOf(t *testing.T, a answer) class {
	t.Helper()
	switch {
	case a.status == http.StatusUnauthorized:
		return isUnauthenticated
	case a.status == http.StatusOK:
		return isPermitted
	case a.status == http.StatusNotFound, a.status == http.StatusMethodNotAllowed, a.status >= 500:
		t.Errorf("the command did not run: %d %s", a.status, a.body)
	case parseError(t, a).HasCode(auth.CodeAuthorization):
		return isDenied
	}
	return isPermitted
}

// matrixCluster returns a cluster with everything that samples name, and a token for each of
// people by name.
func matrixCluster(t *testing.T) (c *cluster, tokens map[string]string) {
	c = withPools(t, "p")
	c.set("//sys/pool_trees/@default_tree", "default")
	c.set("//sys/pools/p/@max_operation_count", "1000")
	c.set("//sys/pools/p/@max_running_operation_count", "1000")
	c.withNodes(25)
	for _, user := range []string{"boss", "other", "admin", "somebody"} {
		c.must("create", fmt.Sprintf("{type=user;attributes={name=%s}}", user), "")
	}
	c.must("create", "{type=group;attributes={name=team}}", "")
	c.must("add_member", "{group=admins;member=admin}", "")
	own := "[{action=allow;subjects=[boss];permissions=[read;write;remove;create;modify_children;administer]}]"
	c.must("create", `{type=map_node;path="//sys/owned"}`, "")
	c.set("//sys/owned/@acl", own)
	for _, path := range []string{"//sys/cluster_nodes"} {
		c.set(path+"/@acl", own)
	}
	c.set("//sys/owned/doc", "1")
	c.must("write_file", `{path="//sys/owned/file"}`, "x")
	for _, tree := range []string{"applied", "moving"} {
		c.must("create", fmt.Sprintf("{type=scheduler_pool_tree;attributes={name=%s;nodes_filter=nowhere}}", tree), "")
		c.set("//sys/pool_trees/"+tree+"/@acl", own)
	}
	for _, pool := range []string{"a", "b"} {
		c.must("create", fmt.Sprintf("{type=scheduler_pool;attributes={name=%s;pool_tree=moving}}", pool), "")
	}
	for _, user := range []string{"none", "wrong", "other", "admin", "root", "boss"} {
		for _, what := range []string{"removed", "moved"} {
			c.set("//sys/owned/"+what+"-"+user, "1")
		}
	}
	tokens = map[string]string{"no token": "", "wrong token": "weir_x"}
	for name, user := range map[string]string{"other user": "other", "administrator": "admin", "superuser": "root", "owner": "boss"} {
		tokens[name] = c.give(user)
	}
	return c, tokens
}

// Every command states the permission that it needs, and the statement holds: without a token,
// with an invalid one, for another user, the owner of the object, an administrator and a
// superuser.
func TestEveryCommandAsksForWhatTheTableSays(t *testing.T) {
	c, tokens := matrixCluster(t)
	users := map[string]string{
		"no token": "none", "wrong token": "wrong", "other user": "other", "administrator": "admin", "superuser": "root", "owner": "boss",
	}
	counts, cells := map[string]int{}, 0
	commands := allCommands()
	for _, g := range commands.groups {
		for _, cmd := range g.commands {
			t.Run(cmd.name, func(t *testing.T) {
				c.t = t
				sample, there := samples[cmd.name]
				if !there {
					t.Fatal("the command has no sample")
				}
				sample.parameters = c.fillSample(sample.parameters, tokens["owner"])
				for _, who := range people {
					a := c.as(tokens[who.name], cmd.name, strings.ReplaceAll(sample.parameters, "USER", users[who.name]), sample.data)
					want := who.may(cmd.needs)
					if got := classOf(t, a); got != want {
						t.Errorf("%s: %s, not %s: %d %s", who.name, got, want, a.status, a.body)
					}
					counts[who.name+" "+string(want)]++
					cells++
				}
			})
		}
	}
	if len(samples) != len(commands.v4) || cells != len(samples)*len(people) {
		t.Errorf("%d samples of %d commands, %d cells", len(samples), len(commands.v4), cells)
	}
	t.Logf("%d commands, %d cells: %v", len(commands.v4), cells, counts)
}

// fillSample creates the objects that the parameters of a sample name, for this sample alone.
func (c *cluster) fillSample(parameters, token string) string {
	c.t.Helper()
	owner := *c
	owner.headers = http.Header{"Authorization": {"OAuth " + token}}
	if strings.Contains(parameters, "TRANSACTION") {
		id := text(owner.node("start_transaction", "{timeout=3600000}"), "transaction_id")
		parameters = strings.ReplaceAll(parameters, "TRANSACTION", id)
	}
	if strings.Contains(parameters, "HASH") {
		hash, err := auth.ParseToken(c.give("boss"))
		if err != nil {
			c.t.Fatal(err)
		}
		parameters = strings.ReplaceAll(parameters, "HASH", hash.Hash().String())
	}
	if strings.Contains(parameters, "NODE") {
		parameters = strings.ReplaceAll(parameters, "NODE", c.Nodes()[0].Name)
	}
	if strings.Contains(parameters, "OPERATION") || strings.Contains(parameters, "JOB") {
		id := owner.start(job("p", "sleep", 1))
		parameters = strings.ReplaceAll(parameters, "OPERATION", id)
		if strings.Contains(parameters, "JOB") {
			owner.runs(id, 1)
			jobs := dug(owner.node("list_jobs", fmt.Sprintf("{operation_id=%q}", id)), "jobs").Items()
			parameters = strings.ReplaceAll(parameters, "JOB", text(jobs[0], "id"))
		}
	}
	return parameters
}

// GET and HEAD change nothing, and the refusal names the method to use instead.
// exceptions are the commands that YTsaurus's own clients send with GET.
var exceptions = []string{"abandon_job", "abort_job"}

func TestOnlyWhatClientsOfYTsaurusSendWithGETIsAnException(t *testing.T) {
	var found []string
	for name, cmd := range allCommands().v4 {
		if cmd.clientsGet {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	if !slices.Equal(found, exceptions) {
		t.Errorf("GET changes things in %q, want only %q", found, exceptions)
	}
}

func TestWhatChangesThingsIsNotSentWithGET(t *testing.T) {
	c := newCluster(t)
	refused := 0
	for version, commands := range map[string]map[string]*command{"v3": allCommands().v3, "v4": allCommands().v4} {
		for name, cmd := range commands {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				a := c.send(method, "/api/"+version+"/"+name, nil, nil)
				want := cmd.changes && !(cmd.clientsGet && method == http.MethodGet)
				if got := a.status == http.StatusMethodNotAllowed; got != want {
					t.Errorf("%s %s: %d", method, name, a.status)
				}
				if !want {
					continue
				}
				refused++
				if allow := a.header.Get("Allow"); !strings.HasSuffix(allow, "PUT, POST") {
					t.Errorf("%s %s: Allow is %q", method, name, allow)
				}
			}
		}
	}
	if refused < 100 {
		t.Errorf("only %d requests were refused", refused)
	}
}

// A request without a token must not make the server read its body or wait for it.
func TestABodyIsReadAfterTheTokenIs(t *testing.T) {
	c := newCluster(t)
	c.give("root")
	connection, err := net.Dial("tcp", strings.TrimPrefix(c.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	_ = connection.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(connection, "PUT /api/v4/write_file?path=//tmp/x HTTP/1.1\r\nHost: x\r\nContent-Length: 30000000\r\n\r\n")
	line := make([]byte, len("HTTP/1.1 401"))
	if _, err := io.ReadFull(connection, line); err != nil || string(line) != "HTTP/1.1 401" {
		t.Errorf("%q %v", line, err)
	}
}
