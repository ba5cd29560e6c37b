package api

import (
	"bytes"
	"io"

	"github.com/weirhq/weir/internal/control/auth"
	"github.com/weirhq/weir/internal/control/blob"
	"github.com/weirhq/weir/internal/control/pathtree"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/checksum"
	"github.com/weirhq/weir/internal/value/yson"
)

// maxSmallFile is the size up to which a file is in the row of its node, not in the blob storage.
const maxSmallFile = 64 << 10

// received is the content of a request: data if it is small, otherwise stored.
type received struct {
	data   []byte
	stored *blob.Content
}

// release must be called when the rows that name the content are committed.
func (r *received) release() {
	if r.stored != nil {
		r.stored.Release()
	}
}

// receiveFile reads the content of the request. Contents above maxSmallFile go to the blob storage as they arrive. If the
// request states a sum, the content must have it.
func (c *call) receiveFile() (*received, error) {
	want, err := c.statedSum()
	if err != nil {
		return nil, err
	}
	in, announced, err := c.body()
	if err != nil {
		return nil, err
	}
	arriving := &arrival{in: in}
	head, err := io.ReadAll(io.LimitReader(arriving, maxSmallFile+1))
	if err != nil {
		return nil, requestBroken(err)
	}
	if len(head) <= maxSmallFile {
		if sum := checksum.Of(head); !want.IsZero() && sum != want {
			return nil, wire.Errorf(wire.CodeGeneric, "%s: %d bytes have the sum %s, not %s", blob.ErrMismatch.Error(), len(head), sum, want)
		}
		return &received{data: head}, nil
	}
	stored, err := c.Server.PutContent(c.Context, c.Who.User, io.MultiReader(bytes.NewReader(head), arriving), announced, want)
	if arriving.err != nil {
		return nil, requestBroken(arriving.err)
	}
	if err != nil {
		return nil, err
	}
	return &received{stored: stored}, nil
}

// body returns the content of the request, and its size, which is negative if it is not known.
func (c *call) body() (content io.Reader, size int64, err error) {
	if c.stream == nil {
		return bytes.NewReader(c.data), int64(len(c.data)), nil
	}
	unpacked, packed, err := unpack(c.stream.body, c.stream.encoding)
	if packed {
		return unpacked, -1, err
	}
	return unpacked, c.stream.length, err
}

// statedSum is the sum that the request states, zero if it states none.
func (c *call) statedSum() (checksum.Sum, error) {
	text, err := c.Parameters.Text("sha256", "")
	if err != nil || text == "" {
		return checksum.Sum{}, err
	}
	sum, err := checksum.Parse(text)
	if err != nil {
		return sum, wire.Errorf(wire.CodeGeneric, "Parameter %q is wrong", "sha256").Because(err)
	}
	return sum, nil
}

// arrival remembers why the body of a request broke off.
type arrival struct {
	in  io.Reader
	err error
}

func (a *arrival) Read(p []byte) (int, error) {
	n, err := a.in.Read(p)
	if err != nil && err != io.EOF {
		a.err = err
	}
	return n, err
}

// writeFile sets the content of a file, and creates the file if it does not exist. It checks the permission before it reads the
// content.
func writeFile(c *call) (yson.Node, error) {
	path, err := c.Parameters.Path("path")
	if err != nil {
		return yson.Node{}, err
	}
	t, err := c.Walk(path, false)
	if err != nil {
		return yson.Node{}, err
	}
	at := t.Place.Path()
	if len(t.Missing) == 0 {
		n, ok := t.Object.(*pathtree.PlainNode)
		if !ok || n.Kind() != "file" || len(t.Attribute) > 0 {
			return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Node %s is not a file", t.Path)
		}
		at = n.Path
	}
	if err := c.Require(auth.Requires(auth.Write, t.Chain(c.Request))); err != nil {
		return yson.Node{}, err
	}
	if len(t.Missing) > 0 {
		if _, err := c.createAt(&t, pathtree.Creation{Kind: "file", Attributes: yson.Map()}); err != nil {
			return yson.Node{}, err
		}
		for _, step := range t.Missing {
			at = pathtree.JoinPath(at, step.Name)
		}
	}
	content, err := c.receiveFile()
	if err != nil {
		return yson.Node{}, err
	}
	defer content.release()
	if err := c.setContent(at, content); err != nil || content.stored == nil {
		return nothing(err)
	}
	return nothing(c.Server.Charge(c.Context, c.Who.User, content.stored, c.Commit))
}

func (c *call) setContent(path string, content *received) error {
	return c.EditRegistry(path, func(r *server.Registry) (*store.Batch, error) {
		row, there := r.PathNode(path)
		if !there || row.Type != "file" {
			return nil, wire.Errorf(wire.CodeResolve, "File %s does not exist", path)
		}
		row.Document, row.Modified = content.data, c.Now
		row.Content, row.ContentSize, row.ContentUser = "", 0, ""
		if s := content.stored; s != nil {
			row.Content, row.ContentSize, row.ContentUser = s.Sum.String(), s.Size, c.Who.User
		}
		batch := &store.Batch{}
		batch.Put.PathNodes = []store.PathNode{row}
		return batch, nil
	})
}

func readFile(c *call) (yson.Node, error) {
	t, err := c.found()
	if err != nil {
		return yson.Node{}, err
	}
	n, ok := t.Object.(*pathtree.PlainNode)
	if !ok || n.Kind() != "file" || len(t.Attribute) > 0 {
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Node %s is not a file", t.Path)
	}
	offset, err := c.Parameters.Integer("offset", 0)
	if err != nil {
		return yson.Node{}, err
	}
	length, err := c.Parameters.Integer("length", n.Size())
	if err != nil {
		return yson.Node{}, err
	}
	if offset < 0 || length < 0 {
		return yson.Node{}, wire.Errorf(wire.CodeGeneric, "Expected >= 0, found offset %d and length %d", offset, length)
	}
	offset = min(offset, n.Size())
	length = min(length, n.Size()-offset)
	if n.Row.Content == "" || length == 0 {
		return c.answerBytes(n.Row.Document[min(offset, int64(len(n.Row.Document))):][:length])
	}
	data, err := c.Server.Content(c.Context, n.Row.Content, offset, length)
	if err != nil {
		return yson.Node{}, err
	}
	return c.answerFrom(data, length)
}
