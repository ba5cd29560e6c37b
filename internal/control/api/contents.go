package api

import (
	"errors"
	"time"

	"github.com/weirhq/weir/internal/control/blob"
	"github.com/weirhq/weir/internal/control/orchid"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/checksum"
	"github.com/weirhq/weir/internal/value/guid"
	"github.com/weirhq/weir/internal/value/yson"
)

// uploadAge is how long an upload waits for the operation that uses it.
const uploadAge = 24 * time.Hour

var contentCommands = []command{
	{
		name: "upload_file", about: "stores a content for operations of the user, whose file_paths then name its sha256; without an operation it is kept for a day",
		needs: signedIn, changes: true,
		parameters: []parameter{{"sha256", aString, required, "the SHA-256 of the content"}},
		input:      rawBytes, streams: true, heavy: true, run: uploadFile,
	},
	{
		name: "find_uploads", about: "returns which contents need not be uploaded: those that the user's files, uploads or operations have", needs: signedIn,
		parameters: []parameter{{"sha256", someStrings, required, "the SHA-256 of each content; at most 1000"}},
		run:        findUploads,
	},
	{
		name: "list_artifacts", about: "lists the files that the jobs of an operation left behind", needs: readOperationData,
		parameters: []parameter{operationID, operationAlias, {"job_id", anID, "", "only those of this job"}},
		result:     "artifacts", run: listArtifacts,
	},
	{
		name: "get_artifacts", about: "returns the files that a job left behind, as a tar archive packed with zstd", needs: readOperationData,
		parameters: []parameter{operationID, operationAlias, jobID}, output: rawBytes, heavy: true, run: getArtifacts,
	},
}

// readOperationData is the permission to read what belongs to the operation's owner.
var readOperationData = permission{name: "`read` on the operation", check: (*call).mayReadOperationData, owners: true, administrators: true}

func (c *call) mayReadOperationData() (err error) {
	if c.operation, err = orchid.FindOperation(c.Request); err != nil {
		return err
	}
	return orchid.MayRead(c.Request, c.operation)
}

func uploadFile(c *call) (yson.Node, error) {
	want, err := c.statedSum()
	if err != nil {
		return yson.Node{}, err
	}
	in, announced, err := c.body()
	if err != nil {
		return yson.Node{}, err
	}
	arriving := &arrival{in: in}
	stored, err := c.Server.PutContent(c.Context, c.Who.User, arriving, announced, want)
	if arriving.err != nil {
		return yson.Node{}, requestBroken(arriving.err)
	}
	if err != nil {
		return yson.Node{}, err
	}
	defer stored.Release()
	use := store.ContentUse{
		Content: stored.Sum.String(), Holder: "upload:" + c.Who.User, User: c.Who.User, Size: stored.Size, Expires: c.Now.Add(uploadAge),
	}
	err = c.EditRegistry("upload:"+use.Content, func(*server.Registry) (*store.Batch, error) {
		batch := &store.Batch{}
		batch.Put.ContentUses = []store.ContentUse{use}
		return batch, nil
	})
	if err != nil {
		return yson.Node{}, err
	}
	if err := c.Server.Charge(c.Context, c.Who.User, stored, c.Commit); err != nil {
		return yson.Node{}, err
	}
	return yson.Map(yson.Pair("sha256", yson.String(use.Content)), yson.Pair("size", yson.Int64(use.Size))), nil
}

// maxUploadsAsked is the most contents that one request asks about.
const maxUploadsAsked = 1000

func findUploads(c *call) (yson.Node, error) {
	names, err := c.Parameters.TextList("sha256")
	if err != nil {
		return yson.Node{}, err
	}
	if len(names) > maxUploadsAsked {
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "The request asks about %d contents; the limit is %d", len(names), maxUploadsAsked)
	}
	var found []yson.Node
	for _, name := range names {
		sum, err := checksum.Parse(name)
		if err != nil {
			return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Parameter %q is wrong", "sha256").Because(err)
		}
		there, err := c.hasContent(sum)
		if err != nil {
			return yson.Node{}, err
		}
		if there {
			found = append(found, yson.String(name))
		}
	}
	return yson.List(found...), nil
}

// hasContent reports whether the user uses a content that will still be there for a while.
func (c *call) hasContent(sum checksum.Sum) (bool, error) {
	uses, err := c.Server.Store().ContentUses(c.Context, c.Who.User, sum.String())
	if err != nil {
		return false, err
	}
	const soon = time.Hour
	lasting := false
	for _, use := range uses {
		lasting = lasting || use.Expires.IsZero() || use.Expires.After(c.Now.Add(soon))
	}
	if !lasting {
		return false, nil
	}
	content, err := c.Server.HoldContent(c.Context, sum)
	if errors.Is(err, blob.ErrNotFound) || errors.Is(err, server.ErrNoBlobs) {
		return false, nil
	}
	if err == nil {
		content.Release()
	}
	return err == nil, err
}

// jobArtifacts are the files that a job left behind.
type jobArtifacts struct {
	server.Artifacts
	use *store.ContentUse
	job guid.ID
}

// artifactsOf returns what the jobs of the request's operation left behind, or one of them.
func (c *call) artifactsOf() ([]jobArtifacts, error) {
	id, err := c.Parameters.ID("job_id")
	if err != nil {
		return nil, err
	}
	number, ok := guid.JobNumber(id)
	if !id.IsZero() && !ok {
		return nil, wire.Errorf(wire.CodeNoSuchJob, "No such job %s", id)
	}
	uses, err := c.Server.Store().OperationContents(c.Context, int32(c.operation.Number), number)
	if err != nil {
		return nil, err
	}
	var list []jobArtifacts
	for i := range uses {
		described, isArchive, err := server.ReadArtifacts(&uses[i])
		if err != nil {
			return nil, err
		}
		if isArchive {
			list = append(list, jobArtifacts{described, &uses[i], guid.OfJob(uses[i].Job)})
		}
	}
	return list, nil
}

func listArtifacts(c *call) (yson.Node, error) {
	list, err := c.artifactsOf()
	if err != nil {
		return yson.Node{}, err
	}
	jobs := make([]yson.Node, len(list))
	for i, a := range list {
		files := make([]yson.Node, len(a.Files))
		for j, f := range a.Files {
			files[j] = yson.Map(yson.Pair("path", yson.String(f.Path)), yson.Pair("size", yson.Int64(f.Size)), yson.Pair("mode", yson.Int64(int64(f.Mode))))
		}
		jobs[i] = yson.Map(
			yson.Pair("job_id", yson.String(a.job.String())), yson.Pair("archive_size", yson.Int64(a.use.Size)), yson.Pair("files", yson.List(files...)),
			yson.Pair("truncated", yson.Boolean(a.Truncated)), yson.Pair("message", yson.String(a.Message)))
	}
	return yson.List(jobs...), nil
}

func getArtifacts(c *call) (yson.Node, error) {
	list, err := c.artifactsOf()
	if err != nil {
		return yson.Node{}, err
	}
	if len(list) == 0 {
		return yson.Node{}, wire.Errorf(wire.CodeNoSuchJob, "The job has left no files behind; artifact_paths of the task says which are kept")
	}
	use := list[0].use
	data, err := c.Server.Content(c.Context, use.Content, 0, use.Size)
	if err != nil {
		return yson.Node{}, err
	}
	return c.answerFrom(data, use.Size)
}
