package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/weirhq/weir/internal/node/picture"
)

// fault is what happens to one request.
type fault struct {
	status int           // the proxy answers with this and does not pass the request on; zero: it does
	lose   bool          // the answer is lost: the connection is cut after the API server has answered
	hold   chan struct{} // the request is passed on when this is closed, even if nobody waits for the answer any more
}

// trouble stands between a scheduler and the API server.
type trouble struct {
	server *httptest.Server
	proxy  *httputil.ReverseProxy

	mutex   sync.Mutex
	rule    func(r *http.Request) *fault // nil: no faults
	watches map[int]context.CancelFunc
	next    int
}

func newTrouble(t *testing.T) *trouble {
	t.Helper()
	target, err := url.Parse("https://" + plane.address)
	if err != nil {
		t.Fatal(err)
	}
	tr := &trouble{watches: map[int]context.CancelFunc{}}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig, transport.ForceAttemptHTTP2 = &tls.Config{InsecureSkipVerify: true}, false
	tr.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Set("Authorization", "Bearer "+weirToken) // clients send no token to an address without TLS
		}, Transport: transport, FlushInterval: -1,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }, // the connection ends
	}
	tr.server = httptest.NewServer(tr)
	t.Cleanup(func() { tr.cut(); tr.server.CloseClientConnections(); tr.server.Close() })
	return tr
}

// ServeHTTP passes a request on, with its fault.
func (tr *trouble) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tr.mutex.Lock()
	var f *fault
	if tr.rule != nil {
		f = tr.rule(r)
	}
	if f == nil {
		f = &fault{}
	}
	if r.URL.Query().Get("watch") != "" {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		r = r.WithContext(ctx)
		tr.next++
		number := tr.next
		tr.watches[number] = cancel
		defer func() {
			tr.mutex.Lock()
			delete(tr.watches, number)
			tr.mutex.Unlock()
		}()
	}
	tr.mutex.Unlock()
	if f.hold != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		<-f.hold
		ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context())) // without its own end the proxy would follow the connection's
		defer cancel()
		r = r.WithContext(ctx)
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	switch {
	case f.status != 0:
		answer(w, f.status)
	case f.lose:
		tr.proxy.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	default:
		tr.proxy.ServeHTTP(w, r)
	}
}

// set makes a rule. Calls of rules follow each other.
func (tr *trouble) set(rule func(r *http.Request) *fault) {
	tr.mutex.Lock()
	defer tr.mutex.Unlock()
	tr.rule = rule
}

// cut ends all watches.
func (tr *trouble) cut() {
	tr.mutex.Lock()
	defer tr.mutex.Unlock()
	for _, cancel := range tr.watches {
		cancel()
	}
}

// answer answers as an API server does.
func answer(w http.ResponseWriter, status int) {
	reasons := map[int]metav1.StatusReason{
		http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests, http.StatusGone: metav1.StatusReasonExpired,
		http.StatusUnauthorized: metav1.StatusReasonUnauthorized, http.StatusInternalServerError: metav1.StatusReasonInternalError,
		http.StatusForbidden: metav1.StatusReasonForbidden,
	}
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"a fault","reason":"` + string(reasons[status]) + `"}`)) // whoever asked may be gone
}

// isBind reports whether a request binds a pod of this name; empty: any.
func isBind(r *http.Request, name string) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/binding") && strings.Contains(r.URL.Path, "/pods/"+name)
}

// isWatch reports whether a request watches something.
func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

// books record where the pods of a namespace are, and what must never happen to them.
type books struct {
	mutex sync.Mutex
	cores map[string]int64 // by node
	nodes map[types.UID]string
	jobs  map[string]types.UID // by the annotation of a bind
	pods  map[types.UID]*corev1.Pod
	wrong []error
}

// keepBooks records the pods of a shop until the end of the test, when nothing may be wrong.
func keepBooks(t *testing.T, s *shop, cores map[string]int64) {
	t.Helper()
	b := &books{cores: cores, nodes: map[types.UID]string{}, jobs: map[string]types.UID{}, pods: map[types.UID]*corev1.Pod{}}
	factory := informers.NewSharedInformerFactoryWithOptions(plane.admin, 0, informers.WithNamespace(s.name))
	informer := factory.Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { b.seen(o) }, UpdateFunc: func(_, o any) { b.seen(o) },
		DeleteFunc: func(o any) {
			if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = tombstone.Obj
			}
			b.mutex.Lock()
			defer b.mutex.Unlock()
			delete(b.pods, o.(*corev1.Pod).UID)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
		b.mutex.Lock()
		defer b.mutex.Unlock()
		for _, err := range b.wrong {
			t.Error(err)
		}
	})
}

// seen checks a pod: it has one node for ever, its job is no other pod's, and its node has room for it.
func (b *books) seen(object any) {
	pod := object.(*corev1.Pod)
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.pods[pod.UID] = pod
	if pod.Spec.NodeName == "" {
		return
	}
	if node := b.nodes[pod.UID]; node != "" && node != pod.Spec.NodeName {
		b.wrong = append(b.wrong, errors.New("pod "+pod.Name+" was bound to "+node+" and to "+pod.Spec.NodeName))
	}
	b.nodes[pod.UID] = pod.Spec.NodeName
	if job := pod.Annotations[picture.AnnotationJob]; job != "" {
		if other := b.jobs[job]; other != "" && other != pod.UID {
			b.wrong = append(b.wrong, errors.New("pod "+pod.Name+" has the job of another pod"))
		}
		b.jobs[job] = pod.UID
	}
	used := int64(0)
	for _, other := range b.pods {
		if other.Spec.NodeName == pod.Spec.NodeName && other.Status.Phase != corev1.PodSucceeded && other.Status.Phase != corev1.PodFailed {
			used += other.Spec.Containers[0].Resources.Requests.Cpu().Value()
		}
	}
	if used > b.cores[pod.Spec.NodeName] {
		b.wrong = append(b.wrong, errors.New("node "+pod.Spec.NodeName+" has too many pods, the last is "+pod.Name))
	}
}
