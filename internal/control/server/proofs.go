package server

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"hash"
	"strconv"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// proofs proves which node a job was given to. The node keeps the job's identity and
// shows it to the next leader. So that no node can claim the job of another one, an
// identity carries a proof: a keyed hash of the job and the name of the node. All leaders share the key through the store; nodes and users never see it.
type proofs struct {
	// Key is the secret, and Since the first epoch whose jobs have proofs. Jobs of
	// earlier epochs are adopted without one.
	Key   []byte `json:"key"`
	Since uint64 `json:"since"`

	mac  hash.Hash // with the key
	text []byte    // the last one, for its memory
}

// proofsSetting is the setting that holds the key. No path leads to it.
const proofsSetting = "job_proofs"

// reviveProofs reads the key, and creates one if there is none.
func (t *term) reviveProofs() {
	if stored, there := t.registry.Setting(proofsSetting); there {
		if err := json.Unmarshal(stored, &t.proofs); err == nil && len(t.proofs.Key) >= sha256.Size {
			return
		}
		t.server.log.Error("cannot read the key of job proofs; creating a new one and adopting running jobs without proofs")
	}
	t.proofs = proofs{Key: make([]byte, sha256.Size), Since: t.epoch}
	_, _ = rand.Read(t.proofs.Key) // it never fails
	row := store.Setting{Name: proofsSetting, Document: mustJSON(t.proofs)}
	t.open.rows.Put.Settings = append(t.open.rows.Put.Settings, row)
	change := &store.Batch{Put: store.Rows{Settings: []store.Setting{row}}}
	t.registry.apply(change)
	t.server.registry.apply(change)
}

// of returns the proof that a job was given to a node.
func (p *proofs) of(identity *nodev1.JobIdentity, node string) []byte {
	if p.mac == nil {
		p.mac = hmac.New(sha256.New, p.Key)
	}
	text := strconv.AppendUint(p.text[:0], identity.GetNumber(), 10)
	text = append(append(text, ' '), identity.GetOperationId()...)
	text = strconv.AppendQuote(append(text, ' '), identity.GetTaskName())
	text = strconv.AppendInt(append(text, ' '), int64(identity.GetCookie()), 10)
	text = strconv.AppendUint(append(text, ' '), uint64(identity.GetGangIncarnation()), 10)
	text = append(append(text, ' '), nodeproto.FromAmounts(identity.GetResources()).String()...)
	text = strconv.AppendQuote(append(text, ' '), node)
	p.text = text
	p.mac.Reset()
	p.mac.Write(text)
	return p.mac.Sum(nil)
}

// holds reports whether a job of an earlier leader was given to a node.
func (p *proofs) holds(identity *nodev1.JobIdentity, node string) bool {
	if len(identity.GetProof()) == 0 && identity.GetNumber() < nodeproto.JobNumber(p.Since, 0) {
		return true
	}
	return hmac.Equal(identity.GetProof(), p.of(identity, node))
}
