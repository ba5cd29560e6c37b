package auth

import (
	"slices"

	"github.com/weirhq/weir/internal/value/document"
)

// Action is what an entry does.
type Action uint8

const (
	Allow Action = iota
	Deny
)

func (a Action) String() string { return [...]string{"allow", "deny"}[a] }

// Inheritance determines to which objects an entry applies, relative to the
// object that has it.
type Inheritance uint8

const (
	ObjectAndDescendants Inheritance = iota
	ObjectOnly
	DescendantsOnly
	ImmediateDescendantsOnly

	inheritanceCount
)

func (i Inheritance) String() string {
	return [...]string{"object_and_descendants", "object_only", "descendants_only", "immediate_descendants_only"}[i]
}

// appliesAt reports whether an entry applies to an object that is this many steps
// below the object that has the entry.
func (i Inheritance) appliesAt(steps int) bool {
	switch i {
	case ObjectOnly:
		return steps == 0
	case DescendantsOnly:
		return steps > 0
	case ImmediateDescendantsOnly:
		return steps == 1
	}
	return true
}

// ACE is an entry of an access control list.
type ACE struct {
	Action      Action
	Subjects    []string // users, groups, or "owner"
	Permissions Permissions
	Inheritance Inheritance
}

// ACL is a list of entries. Their order has no meaning: one entry that denies
// overrides all that allow.
type ACL []ACE

// Limits on a list, which is searched on every request.
const (
	MaxEntries  = 1000
	MaxSubjects = 1000
)

// RuleNoSuchSubject is broken by a list that names an unknown subject.
const RuleNoSuchSubject document.Rule = "no_such_subject"

var (
	actionWords = document.Enum(
		document.Word[Action]{Name: "allow", Value: Allow},
		document.Word[Action]{Name: "deny", Value: Deny})
	inheritanceWords = func() document.Type[Inheritance] {
		var words []document.Word[Inheritance]
		for i := range inheritanceCount {
			words = append(words, document.Word[Inheritance]{Name: i.String(), Value: i})
		}
		return document.Enum(words...)
	}()
	subjectLists = document.OneOrMore(document.Texts.That(nameSays, document.RuleBadFormat, isName))
)

// draftACE is an entry that shows which keys are missing.
type draftACE struct {
	action      document.Optional[Action]
	subjects    document.Optional[[]string]
	permissions document.Optional[[]Permission]
	inheritance document.Optional[Inheritance]
}

var aceTable = document.NewTable(
	document.Maybe("action", "Whether the entry allows or denies.",
		func(e *draftACE) *document.Optional[Action] { return &e.action }, actionWords),
	document.Maybe("subjects", "Users and groups; owner means the owner of the object.",
		func(e *draftACE) *document.Optional[[]string] { return &e.subjects }, subjectLists),
	document.Maybe("permissions", "The permissions that the entry allows or denies.",
		func(e *draftACE) *document.Optional[[]Permission] { return &e.permissions }, document.OneOrMore(permissionWords)),
	document.Maybe("inheritance_mode", "Which objects the entry reaches.",
		func(e *draftACE) *document.Optional[Inheritance] { return &e.inheritance }, inheritanceWords.Default(ObjectAndDescendants)),
)

// ACLs reads and writes access control lists as options of documents: a list of
// maps with action, subjects, permissions and inheritance_mode. It rejects
// restrictions that YTsaurus has and we do not, such as columns, as unknown keys:
// an entry without them would allow more than was written.
var ACLs = document.NewType(
	document.Shape{Kind: "list", Says: "a list of entries with action, subjects and permissions",
		Item: &document.Shape{Kind: "map", Says: "an entry", Options: aceTable.Options()}},
	readACL,
	func(l ACL, _ document.Style) document.Value { return l.Value() },
	ACL.Equal)

// ParseACL reads a list from a document.
func ParseACL(v document.Value) (ACL, error) {
	r := document.NewReader("")
	list, _ := document.ReadAs(ACLs, r, v)
	if err := r.Problems().Err(); err != nil {
		return nil, err
	}
	return list, nil
}

func readACL(r *document.Reader, v document.Value) (ACL, bool) {
	items, ok := document.ReadAs(document.ListOf(document.Anything), r, v)
	if !ok {
		return nil, false
	}
	if len(items) > MaxEntries {
		r.Refuse(v.Position(), document.RuleOutOfRange, sentence("has %d entries; the limit is %d", len(items), MaxEntries))
		return nil, false
	}
	list := make(ACL, 0, len(items))
	for i, item := range items {
		r.Enter(sentence("%d", i))
		entry, read := readACE(r, item)
		r.Leave()
		list = append(list, entry)
		ok = ok && read
	}
	return list, ok
}

func readACE(r *document.Reader, v document.Value) (entry ACE, ok bool) {
	var draft draftACE
	if v.IsNull() {
		v = document.Map().At(v.Position())
	}
	wrong := aceTable.Read(r, v, &draft)
	ok = len(wrong) == 0
	missing := func(name string, set bool) {
		if !set && !slices.Contains(wrong, name) {
			r.Refuse(v.Position(), document.RuleMissing, "the entry needs "+name)
			ok = false
		}
	}
	missing("action", draft.action.IsSet())
	missing("subjects", draft.subjects.IsSet())
	missing("permissions", draft.permissions.IsSet())
	subjects := draft.subjects.Value()
	switch {
	case len(subjects) > MaxSubjects:
		r.Refuse(v.Position(), document.RuleOutOfRange, sentence("the entry has %d subjects; the limit is %d", len(subjects), MaxSubjects))
		ok = false
	case draft.subjects.IsSet() && len(subjects) == 0 || draft.permissions.IsSet() && len(draft.permissions.Value()) == 0:
		r.Refuse(v.Position(), document.RuleMissing, "the entry needs at least one subject and one permission")
		ok = false
	}
	return ACE{
		Action: draft.action.Value(), Subjects: subjects,
		Permissions: SetOf(draft.permissions.Value()...), Inheritance: draft.inheritance.Value(),
	}, ok
}

// Value writes the list as a document with every key.
func (l ACL) Value() document.Value {
	items := make([]document.Value, len(l))
	for i, e := range l {
		items[i] = e.Value()
	}
	return document.List(items...)
}

// Value writes the entry as a document.
func (e ACE) Value() document.Value {
	texts := func(list []string) document.Value {
		items := make([]document.Value, len(list))
		for i, text := range list {
			items[i] = document.Text(text)
		}
		return document.List(items...)
	}
	var permissions []string
	for _, p := range e.Permissions.List() {
		permissions = append(permissions, p.String())
	}
	return document.Map(
		document.Pair("action", document.Text(e.Action.String())),
		document.Pair("subjects", texts(e.Subjects)),
		document.Pair("permissions", texts(permissions)),
		document.Pair("inheritance_mode", document.Text(e.Inheritance.String())))
}

// Equal reports whether two lists have the same entries in the same order.
func (l ACL) Equal(m ACL) bool {
	return slices.EqualFunc(l, m, func(a, b ACE) bool {
		return a.Action == b.Action && a.Permissions == b.Permissions && a.Inheritance == b.Inheritance && slices.Equal(a.Subjects, b.Subjects)
	})
}

// Without returns the list without a subject and without entries that had no
// other subject. Use it when the subject is removed.
func (l ACL) Without(subject string) ACL {
	var rest ACL
	for _, e := range l {
		e.Subjects = slices.DeleteFunc(slices.Clone(e.Subjects), func(s string) bool { return s == subject })
		if len(e.Subjects) > 0 {
			rest = append(rest, e)
		}
	}
	return rest
}
