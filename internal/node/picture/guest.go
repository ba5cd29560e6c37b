package picture

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirhq/weir/internal/node/workload"
	"github.com/weirhq/weir/internal/value/resource"
)

// guest is a pod that somebody else has created and Weir schedules.
type guest struct {
	pod     *corev1.Pod
	seen    time.Time         // when it began to wait, by our clock
	problem *workload.Problem // why it cannot be offered
	task    *guestTask        // nil if it has no place
	cookie  int32             // within the task
	offered bool              // the scheduler has its offer
	job     *job              // from the order to start it until the end is durable
	// asideUntil is when it is offered again after a start that went wrong; rejected is what the API server said to that.
	asideUntil time.Time
	rejections int
	rejected   string
	note       note
}

// guests is everything about pods of others that Weir schedules.
type guests struct {
	pods       map[types.UID]*guest
	operations map[string]*external // by alias
	ids        map[string]*external
	owners     map[types.UID]*ownerEntry
	namespaces map[string]map[string]string
	groups     map[string]*workload.PodGroup
	groupNotes map[string]*groupNote
	strangers  map[string]map[types.UID]bool // pods of groups that other schedulers have, by group
	claims     map[string]*corev1.PersistentVolumeClaim
	volumes    map[string]*corev1.PersistentVolume
	neighbours map[string]map[types.UID]*corev1.Pod // pods with extras, ports or claims, by node
	near       *workload.Neighbours                 // pods by what pods demand of each other
	stirred    bool                                 // counts of near have changed
	classes    map[string]*class
	numbers    []int32 // of classes that are free again
	highest    int32   // class
	classed    bool    // there are classes that nodes have not been asked about

	listed  bool // the scheduler has told which operations there are
	asking  bool // an Ask is under way
	moved   bool // something around pods has changed: all are placed again
	offers  time.Time
	pending []Withdrawal
	wanted  []OwnerAsk
	whyAt   time.Time
	notesAt time.Time // when conditions were looked at
	whying  bool
}

func newGuests() guests {
	return guests{
		pods: map[types.UID]*guest{}, operations: map[string]*external{}, ids: map[string]*external{}, owners: map[types.UID]*ownerEntry{},
		namespaces: map[string]map[string]string{}, groups: map[string]*workload.PodGroup{}, groupNotes: map[string]*groupNote{}, strangers: map[string]map[types.UID]bool{}, claims: map[string]*corev1.PersistentVolumeClaim{},
		volumes: map[string]*corev1.PersistentVolume{}, neighbours: map[string]map[types.UID]*corev1.Pod{}, near: workload.NewNeighbours(),
		classes: map[string]*class{}, highest: ClassPending,
	}
}

// ownerEntry is an owner that was asked for.
type ownerEntry struct {
	known bool
	owner *workload.Owner // nil if it cannot be read
}

// OwnerAsk is an owner to read. Its metadata suffice.
type OwnerAsk struct {
	Namespace, APIVersion, Kind, Name string
	UID                               types.UID
}

// OwnerRead records the metadata of an owner, nil if it cannot be read or is gone.
func (p *Picture) OwnerRead(uid types.UID, owner *workload.Owner) {
	if entry := p.guests.owners[uid]; entry != nil {
		entry.known, entry.owner = true, owner
		p.guests.moved = true
	}
}

// NamespaceSeen records the labels of a namespace; nil: it is gone.
func (p *Picture) NamespaceSeen(name string, labels map[string]string) {
	p.guests.namespaces[name] = labels
	p.stir(p.guests.near.SetNamespace(name, labels), true)
}

// PodGroupSeen records a PodGroup of an API group; nil: it is gone.
func (p *Picture) PodGroupSeen(group, namespace, name string, podGroup *workload.PodGroup) {
	key := group + " " + namespace + "/" + name
	if podGroup == nil {
		delete(p.guests.groups, key)
		delete(p.guests.groupNotes, key)
	} else {
		p.guests.groups[key] = podGroup
	}
	p.guests.moved = true
}

// ClaimSeen records a claim; gone reports that it is gone.
func (p *Picture) ClaimSeen(claim *corev1.PersistentVolumeClaim, gone bool) {
	key := claim.Namespace + "/" + claim.Name
	p.guests.claims[key] = claim
	if gone {
		delete(p.guests.claims, key)
	}
	p.guests.moved = true
}

// VolumeSeen records a volume; gone reports that it is gone.
func (p *Picture) VolumeSeen(volume *corev1.PersistentVolume, gone bool) {
	p.guests.volumes[volume.Name] = volume
	if gone {
		delete(p.guests.volumes, volume.Name)
	}
	p.guests.moved = true
}

// around is what is known beside a pod. An owner that is not known is asked for.
func (p *Picture) around() *workload.Around {
	return &workload.Around{
		Owner: func(namespace string, ref *metav1.OwnerReference) (*workload.Owner, bool) {
			entry := p.guests.owners[ref.UID]
			if entry == nil {
				entry = &ownerEntry{}
				p.guests.owners[ref.UID] = entry
				p.guests.wanted = append(p.guests.wanted, OwnerAsk{namespace, ref.APIVersion, ref.Kind, ref.Name, ref.UID})
			}
			return entry.owner, entry.known
		},
		Namespace: func(name string) (map[string]string, bool) {
			labels, known := p.guests.namespaces[name]
			return labels, known
		},
		PodGroup: func(group, namespace, name string) *workload.PodGroup {
			return p.guests.groups[group+" "+namespace+"/"+name]
		},
	}
}

func (p *Picture) storage() *workload.Storage {
	return &workload.Storage{
		Claim:  func(namespace, name string) *corev1.PersistentVolumeClaim { return p.guests.claims[namespace+"/"+name] },
		Volume: func(name string) *corev1.PersistentVolume { return p.guests.volumes[name] },
	}
}

// guestSeen records a pod with our scheduler's name.
func (p *Picture) guestSeen(now time.Time, pod *corev1.Pod) {
	g := p.guests.pods[pod.UID]
	if g == nil {
		g = &guest{seen: now}
		g.note.read(pod)
		p.guests.pods[pod.UID] = g
	}
	g.pod = pod
	if !p.synced {
		return
	}
	if j := p.uids[pod.UID]; j != nil {
		p.seen(now, j, pod)
		return
	}
	if j := g.job; j != nil && j.phase < ended {
		p.guestChanged(now, g, j)
		return
	}
	if workload.Waits(pod) {
		p.placeGuest(now, g)
		return
	}
	p.dropGuest(g)
	p.otherSeen(now, pod) // bound by somebody else, or given up by us
}

// guestChanged compares a pod that is to start with what is known of it now.
func (p *Picture) guestChanged(now time.Time, g *guest, j *job) {
	switch {
	case g.pod.Spec.NodeName != "":
		p.foundGuest(now, j, g.pod)
	case !workload.Waits(g.pod) && j.phase == waiting:
		p.finish(now, j, notStarted(j.identity, reasonGone, "the pod does not wait any more", now))
	default:
		j.pod = g.pod
	}
}

// guestGone records that a pod is gone.
func (p *Picture) guestGone(now time.Time, uid types.UID) {
	g := p.guests.pods[uid]
	if g == nil {
		return
	}
	delete(p.guests.pods, uid)
	p.dropGuest(g)
	if j := g.job; j != nil && !j.exists && j.phase < ended && !j.writing {
		p.finish(now, j, notStarted(j.identity, reasonGone, "the pod was deleted before it started", now))
	}
}

// placeGuest finds the operation and the task of a pod that waits.
func (p *Picture) placeGuest(now time.Time, g *guest) {
	if !p.guests.listed || g.job != nil {
		return
	}
	place, known, problem := workload.PlaceOf(g.pod, p.around())
	if !known {
		return
	}
	var c *workload.Constraints
	if problem == nil {
		c, problem = workload.ConstraintsOf(g.pod, p.options.GPUResources, p.storage(), p.guests.near)
	}
	g.problem = problem
	if problem != nil {
		p.dropGuest(g)
		return
	}
	amounts, priority := p.options.requested(g.pod), workload.Priority(g.pod)
	name := workload.TaskOf(amounts, c, priority)
	if g.task != nil && g.task.name == name && samePlace(&g.task.of.place, &place) {
		return
	}
	p.dropGuest(g)
	op := p.operationOf(&place, name, priority)
	t := op.tasks[name]
	if t == nil {
		t = &guestTask{of: op, name: name, amounts: amounts, priority: priority, pods: map[int32]*guest{}}
		op.tasks[name] = t
	}
	if t.class == nil && !p.classify(t, c) {
		g.problem = &workload.Problem{Reason: workload.ReasonSchedulerError, Message: "pods demand too many different things of nodes"}
		return
	}
	g.task, g.cookie, g.offered, t.fresh = t, t.take(), false, true
	t.pods[g.cookie] = g
}

// dropGuest takes a pod out of its task. The cookie of one that has a job stays taken until the end is durable.
func (p *Picture) dropGuest(g *guest) {
	t := g.task
	if t == nil || g.job != nil {
		return
	}
	if g.offered && t.of.id != "" {
		p.guests.pending = append(p.guests.pending, Withdrawal{t.of.id, t.name, []int32{g.cookie}})
	}
	p.releaseCookie(t, g.cookie)
	g.task, g.offered = nil, false
}

func (p *Picture) releaseCookie(t *guestTask, cookie int32) {
	delete(t.pods, cookie)
	t.free = append(t.free, cookie)
	if len(t.pods) == 0 {
		p.declassify(t)
	}
}

// guestTask is pods of an operation that are alike.
type guestTask struct {
	of       *external
	name     string
	amounts  resource.Amounts
	priority int32
	class    *class // nil while it has no pods
	pods     map[int32]*guest
	free     []int32
	next     int32
	fresh    bool // a pod may have to be offered
}

// take returns a cookie that nothing uses.
func (t *guestTask) take() (cookie int32) {
	if last := len(t.free) - 1; last >= 0 {
		cookie, t.free = t.free[last], t.free[:last]
		return cookie
	}
	t.next++
	return t.next - 1
}

// reserve takes a cookie that a running job has.
func (t *guestTask) reserve(cookie int32, g *guest) {
	for t.next <= cookie {
		t.free = append(t.free, t.next)
		t.next++
	}
	t.free = slices.DeleteFunc(t.free, func(c int32) bool { return c == cookie })
	t.pods[cookie] = g
}

// guestList returns all pods of others in a fixed order.
func (p *Picture) guestList() []*guest {
	list := make([]*guest, 0, len(p.guests.pods))
	for _, g := range p.guests.pods {
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b *guest) int {
		return cmp.Or(a.pod.CreationTimestamp.Compare(b.pod.CreationTimestamp.Time), cmp.Compare(a.pod.Namespace, b.pod.Namespace),
			cmp.Compare(a.pod.Name, b.pod.Name), cmp.Compare(a.pod.UID, b.pod.UID))
	})
	return list
}

// placeGuests places all waiting pods, after something around them has changed.
func (p *Picture) placeGuests(now time.Time) {
	p.guests.moved = false
	p.judgeTasks()
	for _, g := range p.guestList() {
		if g.job == nil && workload.Waits(g.pod) {
			p.placeGuest(now, g)
		}
	}
}
