package nodeproto

import (
	"cmp"
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/value/resource"
)

// maxNameLength bounds names of nodes and tags: they become keys and labels everywhere.
const maxNameLength = 256

// checkRegistration returns everything that is wrong with a registration.
func checkRegistration(request *nodev1.RegisterRequest) (problems []error) {
	node := request.GetNode()
	if err := checkName(node.GetName()); err != nil {
		problems = append(problems, fmt.Errorf("node.name: %w", err))
	}
	for i, tag := range node.GetTags() {
		if err := checkName(tag); err != nil {
			problems = append(problems, fmt.Errorf("node.tags[%d]: %w", i, err))
		}
	}
	if err := CheckAmounts(node.GetResources()); err != nil {
		problems = append(problems, fmt.Errorf("node.resources: %w", err))
	}
	if request.GetIncarnation() == 0 {
		problems = append(problems, errors.New("incarnation: must not be zero"))
	}
	if request.GetSequence() == 0 {
		problems = append(problems, errors.New("sequence: must not be zero"))
	}
	if !request.GetReport().GetFull() {
		problems = append(problems, errors.New("report.full: a registration carries the whole picture"))
	}
	return append(problems, checkReport(request.GetReport())...)
}

func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("must not be empty")
	case name == AnyNode:
		return fmt.Errorf("%q stands for every node", AnyNode)
	case len(name) > maxNameLength:
		return fmt.Errorf("has %d bytes, more than %d", len(name), maxNameLength)
	}
	for _, r := range name {
		if r <= ' ' || r == utf8.RuneError || r == 0x7f {
			return fmt.Errorf("%q has a blank or a control character", name)
		}
	}
	return nil
}

// CheckAmounts returns what is wrong with amounts received over the wire: one is below
// zero, or beyond what sums can hold. Absent amounts are valid.
func CheckAmounts(m *nodev1.Amounts) error {
	amounts := FromAmounts(m)
	for _, kind := range resource.Kinds {
		if v := amounts[kind]; v < 0 || v > resource.Unlimited {
			return fmt.Errorf("%s: %d is not between 0 and %d", kind, v, resource.Unlimited)
		}
	}
	return nil
}

// checkReport returns everything that is wrong with a report by itself.
func checkReport(report *nodev1.Report) (problems []error) {
	wrong := func(list string, i int, format string, args ...any) {
		problems = append(problems, fmt.Errorf("report.%s[%d]: %w", list, i, fmt.Errorf(format, args...)))
	}
	statuses := make(map[uint64]bool, len(report.GetJobs()))
	for i, status := range report.GetJobs() {
		number := status.GetNumber()
		if number == 0 || statuses[number] {
			wrong("jobs", i, "job number %d is zero or stands twice", number)
		}
		statuses[number] = true
		if identity := status.GetIdentity(); identity != nil && identity.GetNumber() != number {
			wrong("jobs", i, "job %d has the identity of %d", number, identity.GetNumber())
		}
		if status.GetIdentity() == nil && report.GetFull() {
			wrong("jobs", i, "job %d has no identity in a full report", number)
		}
		if err := cmp.Or(CheckAmounts(status.GetUsage()), CheckAmounts(status.GetIdentity().GetResources())); err != nil {
			wrong("jobs", i, "job %d: %w", number, err)
		}
		if status.GetPhase() == nodev1.Phase_PHASE_UNSPECIFIED {
			wrong("jobs", i, "job %d has no phase", number)
		}
	}
	results := make(map[uint64]bool, len(report.GetResults()))
	for i, result := range report.GetResults() {
		number := result.GetNumber()
		if number == 0 || results[number] {
			wrong("results", i, "job number %d is zero or stands twice", number)
		}
		results[number] = true
		if identity := result.GetIdentity(); identity != nil && identity.GetNumber() != number {
			wrong("results", i, "job %d has the identity of %d", number, identity.GetNumber())
		}
		if result.GetState() == nodev1.JobState_JOB_STATE_UNSPECIFIED {
			wrong("results", i, "job %d has no state", number)
		}
		if err := CheckAmounts(result.GetIdentity().GetResources()); err != nil {
			wrong("results", i, "job %d: %w", number, err)
		}
	}
	if node := report.GetNode(); node != nil {
		for _, amounts := range []struct {
			name  string
			value *nodev1.Amounts
		}{{"limits", node.GetLimits()}, {"usage", node.GetUsage()}} {
			if err := CheckAmounts(amounts.value); err != nil {
				problems = append(problems, fmt.Errorf("report.node.%s: %w", amounts.name, err))
			}
		}
	}
	return problems
}

func compareNumbers(a, b uint64) int { return cmp.Compare(a, b) }

// withIdentity is a copy of a result that has the identity.
func withIdentity(result *nodev1.JobResult, identity *nodev1.JobIdentity) *nodev1.JobResult {
	out := proto.CloneOf(result)
	out.Identity = identity
	return out
}

// statusWithIdentity is a status that has the identity: itself, or a copy.
func statusWithIdentity(status *nodev1.JobStatus, identity *nodev1.JobIdentity) *nodev1.JobStatus {
	if status.GetIdentity() != nil {
		return status
	}
	out := proto.CloneOf(status)
	out.Identity = identity
	return out
}
