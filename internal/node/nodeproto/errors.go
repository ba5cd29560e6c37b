package nodeproto

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// NotLeaderError is the answer of a standby: another scheduler leads.
type NotLeaderError struct {
	Leader string // its address, empty if it is not known
	Epoch  uint64
}

func (e *NotLeaderError) Error() string {
	if e.Leader == "" {
		return "this scheduler does not lead, and knows of none that does"
	}
	return fmt.Sprintf("this scheduler does not lead; %s does", e.Leader)
}

// MustRegisterError is the answer to a heartbeat of a session that the leader does not have.
type MustRegisterError struct{ Reason string }

func (e *MustRegisterError) Error() string { return "the node must register: " + e.Reason }

// StaleError is the answer to a request that a later one of the same node has overtaken.
type StaleError struct{ Sequence uint64 }

func (e *StaleError) Error() string {
	return fmt.Sprintf("the request is stale: number %d has been taken in", e.Sequence)
}

// RefusedError is why a scheduler refuses a node.
type RefusedError struct {
	Reason     nodev1.RefusalReason
	Message    string
	Trees      []string      // for two trees
	RetryAfter time.Duration // zero: by the settings
}

func (e *RefusedError) Error() string {
	reason := strings.ToLower(strings.TrimPrefix(e.Reason.String(), "REFUSAL_REASON_"))
	return fmt.Sprintf("the node is refused (%s): %s", reason, e.Message)
}

// code is the status code of a refusal.
func (e *RefusedError) code() connect.Code {
	switch e.Reason {
	case nodev1.RefusalReason_REFUSAL_REASON_UNKNOWN_TOKEN:
		return connect.CodeUnauthenticated
	case nodev1.RefusalReason_REFUSAL_REASON_WRONG_NAME, nodev1.RefusalReason_REFUSAL_REASON_BANNED:
		return connect.CodePermissionDenied
	case nodev1.RefusalReason_REFUSAL_REASON_INVALID:
		return connect.CodeInvalidArgument
	case nodev1.RefusalReason_REFUSAL_REASON_OVERLOAD:
		return connect.CodeResourceExhausted
	default:
		return connect.CodeFailedPrecondition
	}
}

// refusef is a refusal with a message.
func refusef(reason nodev1.RefusalReason, format string, args ...any) *RefusedError {
	return &RefusedError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// invalidf refuses a message that breaks a rule.
func invalidf(format string, args ...any) *RefusedError {
	return refusef(nodev1.RefusalReason_REFUSAL_REASON_INVALID, format, args...)
}

// ToConnect converts an error of this package to one that is sent with its details. It returns
// other errors unchanged.
func ToConnect(err error) error {
	var (
		notLeader *NotLeaderError
		register  *MustRegisterError
		stale     *StaleError
		refused   *RefusedError
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &notLeader):
		return detailed(connect.CodeFailedPrecondition, err, &nodev1.NotLeader{LeaderAddress: notLeader.Leader, Epoch: notLeader.Epoch})
	case errors.As(err, &register):
		return detailed(connect.CodeFailedPrecondition, err, &nodev1.MustRegister{Reason: register.Reason})
	case errors.As(err, &stale):
		return detailed(connect.CodeAborted, err, &nodev1.Stale{Sequence: stale.Sequence})
	case errors.As(err, &refused):
		return detailed(refused.code(), err, &nodev1.Refusal{
			Reason: refused.Reason, Message: refused.Message, Trees: refused.Trees, RetryAfterUs: Micros(refused.RetryAfter),
		})
	}
	return err
}

func detailed(code connect.Code, err error, detail proto.Message) error {
	out := connect.NewError(code, err)
	// A detail that cannot be packed is a message that cannot be marshalled; the code and
	// the text still tell what happened.
	if packed, packing := connect.NewErrorDetail(detail); packing == nil {
		out.AddDetail(packed)
	}
	return out
}

// FromConnect converts an error received over the wire to one of this package, if it has such a
// detail. Only other errors keep the original in their chain.
func FromConnect(err error) error {
	var remote *connect.Error
	if !errors.As(err, &remote) {
		return err
	}
	for _, detail := range remote.Details() {
		value, unpacking := detail.Value()
		if unpacking != nil {
			continue // a detail of a newer protocol
		}
		switch value := value.(type) {
		case *nodev1.NotLeader:
			return &NotLeaderError{Leader: value.GetLeaderAddress(), Epoch: value.GetEpoch()}
		case *nodev1.MustRegister:
			return &MustRegisterError{Reason: value.GetReason()}
		case *nodev1.Stale:
			return &StaleError{Sequence: value.GetSequence()}
		case *nodev1.Refusal:
			return &RefusedError{Reason: value.GetReason(), Message: value.GetMessage(), Trees: value.GetTrees(),
				RetryAfter: Duration(value.GetRetryAfterUs())}
		}
	}
	return err
}
