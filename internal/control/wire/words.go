package wire

import (
	"fmt"
	"strings"

	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/yson"
)

// problemWords describes a broken rule in the words that clients of YTsaurus match on; empty for
// rules without such words.
func problemWords(p document.Problem) string {
	fact := func(name string) string { return factText(p.Fact(name)) }
	pool, option := fact("pool"), fact("option")
	if option == "" {
		option = p.Path[strings.LastIndexByte(p.Path, '/')+1:]
	}
	switch p.Rule {
	case pooltree.RuleDuplicateName:
		return fmt.Sprintf("Pool tree already contains pool with name %q", pool)
	case pooltree.RuleUnknownPool:
		return fmt.Sprintf("Pool %q does not exist", pool)
	case pooltree.RuleUnknownParent:
		return fmt.Sprintf("Pool %q does not exist", fact("parent"))
	case pooltree.RuleCycle:
		return "Cannot copy or move an object to its descendant"
	case pooltree.RuleTooDeep, pooltree.RuleSubtreeSize:
		return "Subtree size limit exceeded"
	case pooltree.RuleFIFOWithSubpools:
		return "Pool cannot have subpools since it is in FIFO mode"
	case pooltree.RuleFIFOWithEphemeral:
		return "FIFO pool cannot create ephemeral subpools"
	case pooltree.RuleCountPair:
		return fmt.Sprintf("%q must be greater than or equal to %q, but %s < %s", "max_operation_count", "max_running_operation_count",
			fact("max_operation_count"), fact("max_running_operation_count"))
	case pooltree.RuleChildWithoutParent:
		return fmt.Sprintf("%s for resource %q is explicitly configured at child pool %q but is not configured at parent %q",
			guaranteeWords(option), fact("resource"), pool, fact("parent"))
	case pooltree.RuleChildrenForbidden:
		return fmt.Sprintf("%s is explicitly configured at child pool %q but parent %q does not allow children guarantees",
			guaranteeWords(option), pool, fact("parent"))
	case pooltree.RuleSumOverParent:
		return fmt.Sprintf("%s of resource %q for pool %q is less than the sum of children guarantees",
			guaranteeWords(option), fact("resource"), pool)
	case pooltree.RuleIntegralInIntegral:
		return fmt.Sprintf("Integral pool %q cannot have children with integral resources", fact("parent"))
	case pooltree.RuleMainResource:
		return fmt.Sprintf("Main resource guarantee must be specified in order to set guarantees for other resources; main resource is %q", fact("main_resource"))
	case document.RuleTwoNames:
		return "Attempt to set the same attribute with different alias"
	case document.RuleWrongType:
		return fmt.Sprintf("%q has invalid type", option)
	case document.RuleUnknownValue, document.RuleBadFormat:
		return fmt.Sprintf("Error parsing %s value", option)
	case document.RuleOutOfRange:
		return "Validation failed"
	}
	return ""
}

// guaranteeWords is the name of the parts of a guarantee.
func guaranteeWords(option string) string {
	switch {
	case strings.Contains(option, "burst"):
		return "Burst guarantee"
	case strings.Contains(option, "resource_flow"):
		return "Resource flow"
	}
	return "Strong guarantee"
}

func factText(v document.Value) string {
	if text, ok := v.Text(); ok {
		return text
	}
	if v.IsNull() {
		return ""
	}
	return v.String()
}

// problemError is the error for one broken rule: the words for clients, then our own sentence, and
// the facts for programs.
func problemError(p document.Problem) *Error {
	message := p.String()
	if words := problemWords(p); words != "" {
		message = words + ": " + message
	}
	code := CodeGeneric
	switch p.Rule {
	case pooltree.RuleDuplicateName:
		code = CodeAlreadyExists
	case pooltree.RuleUnknownPool, pooltree.RuleUnknownParent:
		code = CodeResolve
	}
	e := Errorf(code, "%s", message).With("path", yson.String(p.Path)).With("rule", yson.String(string(p.Rule)))
	for _, fact := range p.Facts {
		e.With(fact.Key, FromDocument(fact.Value))
	}
	return e
}
