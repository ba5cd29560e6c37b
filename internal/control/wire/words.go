package wire

import (
	"fmt"
	"strings"

	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/yson"
)

// problemWords describes a broken rule in the sentences of YTsaurus, which its clients and tests
// match on, from the outermost error to the innermost; none for rules that it does not have.
func problemWords(p document.Problem) []string {
	fact := func(name string) string { return factText(p.Fact(name)) }
	pool, option := fact("pool"), fact("option")
	if option == "" {
		option = optionIn(p.Path)
	}
	one := func(format string, arguments ...any) []string { return []string{fmt.Sprintf(format, arguments...)} }
	switch p.Rule {
	case pooltree.RuleDuplicateName:
		return one("Pool tree already contains pool with name %q", pool)
	case pooltree.RuleUnknownPool:
		return one("Pool %q does not exist", pool)
	case pooltree.RuleUnknownParent:
		return one("Pool %q does not exist", fact("parent"))
	case pooltree.RuleCycle:
		return one("Cannot copy or move an object to its descendant")
	case pooltree.RuleTooDeep, pooltree.RuleSubtreeSize:
		return one("Subtree size limit exceeded")
	case pooltree.RuleFIFOWithSubpools:
		return one("Pool %q cannot have subpools since it is in FIFO mode", pool)
	case pooltree.RuleFIFOWithEphemeral:
		return one("FIFO pool cannot create ephemeral subpools")
	case pooltree.RuleCountPair:
		return one("%q must be greater than or equal to %q, but %s < %s", "max_operation_count", "max_running_operation_count",
			fact("max_operation_count"), fact("max_running_operation_count"))
	case pooltree.RuleChildWithoutParent:
		return one("%s is explicitly configured at child pool %q but is not configured at parent %q", guaranteeWords(option), pool, fact("parent"))
	case pooltree.RuleChildrenForbidden:
		return one("%s is explicitly configured at child pool %q but parent %q does not allow children guarantees",
			guaranteeWords(option), pool, fact("parent"))
	case pooltree.RuleSumOverParent:
		return one("%s of resource for pool %q is less than the sum of children guarantees", guaranteeWords(option), pool)
	case pooltree.RuleIntegralInIntegral:
		return one("Integral pool %q cannot have children with integral resources", fact("parent"))
	case pooltree.RuleMainResource:
		return one("Main resource guarantee must be specified in order to set guarantees for any other resource")
	case document.RuleTwoNames:
		return one("Attempt to set the same attribute with different alias")
	case document.RuleWrongType:
		return []string{fmt.Sprintf("Error reading parameter /%s", option), fmt.Sprintf("%q cannot be parsed from %q", option, kindWords(fact("type")))}
	case document.RuleUnknownValue, document.RuleBadFormat:
		return one("Error parsing %s value", option)
	case document.RuleOutOfRange:
		return append(one("Validation failed at /%s", option), rangeWords(p)...)
	}
	return nil
}

// optionIn is the last part of a path that is a name: elements of lists have numbers.
func optionIn(path string) string {
	parts := strings.Split(path, "/")
	for i := len(parts) - 1; i > 0; i-- {
		if strings.Trim(parts[i], "0123456789") != "" {
			return parts[i]
		}
	}
	return parts[0]
}

// rangeWords describes which bound a value breaks.
func rangeWords(p document.Problem) []string {
	found, least, above, most := p.Fact("value"), p.Fact("minimum"), p.Fact("exclusive_minimum"), p.Fact("maximum")
	switch {
	case !least.IsNull() && !most.IsNull():
		return []string{fmt.Sprintf("Expected in range [%v,%v], found %v", least, most, found)}
	case !least.IsNull():
		return []string{fmt.Sprintf("Expected >= %v, found %v", least, found)}
	case !above.IsNull():
		return []string{fmt.Sprintf("Expected > %v, found %v", above, found)}
	case !most.IsNull():
		return []string{fmt.Sprintf("Expected <= %v, found %v", most, found)}
	}
	return nil
}

// kindWords is the name that clients of YTsaurus know a kind of values by.
func kindWords(kind string) string {
	switch kind {
	case "null":
		return "entity"
	case "bool":
		return "boolean"
	case "int":
		return "int64"
	case "uint":
		return "uint64"
	case "float":
		return "double"
	}
	return kind
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

// problemError is the error for one broken rule: what clients of YTsaurus know, inside it our own
// sentence, and the facts for programs.
func problemError(p document.Problem) *Error {
	code := CodeGeneric
	switch p.Rule {
	case pooltree.RuleDuplicateName:
		code = CodeAlreadyExists
	case pooltree.RuleUnknownPool, pooltree.RuleUnknownParent:
		code = CodeResolve
	}
	e := Errorf(CodeGeneric, "%s", p.String())
	words := problemWords(p)
	for i := len(words) - 1; i >= 0; i-- {
		e = &Error{Code: CodeGeneric, Message: words[i], Inner: []*Error{e}}
	}
	e.Code = code
	e.With("path", yson.String(p.Path)).With("rule", yson.String(string(p.Rule)))
	for _, fact := range p.Facts {
		e.With(fact.Key, FromDocument(fact.Value))
	}
	return e
}
