package kube

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/node/picture"
)

const (
	// writers is how many writes are under way at most, and tellers how many of them may tell people something.
	writers = 16
	tellers = 3
	// leaseMargin is how much of the lease must be left when a write leaves.
	leaseMargin = time.Second
	// writeTimeout is how long a write may take, if the lease lasts that long.
	writeTimeout = 5 * time.Second
	// maxLog bounds how much of a log is kept, readLog how much is read.
	maxLog  = 16 << 20
	readLog = 256 << 20
)

// telling is the last priority: that of conditions and events.
const telling = 3

// priority of a write: what frees something comes before what takes something.
func priority(k picture.WriteKind) int {
	switch k {
	case picture.Delete, picture.Release, picture.Evict:
		return 0
	case picture.Create, picture.Find, picture.CreateFiles, picture.Bind:
		return 1
	case picture.Explain, picture.ExplainGroup:
		return telling
	}
	return 2
}

// queued is a write with the function that gets its outcome.
type queued struct {
	write picture.Write
	done  func(*picture.Outcome)
}

// writer carries out writes at a rate that the API server can bear.
type writer struct {
	client kubernetes.Interface
	groups atomic.Pointer[groups] // nil while the cluster has none
	fetch  fetcher
	left   func() time.Duration // of the lease
	tally  *tally

	mutex  sync.Mutex
	rate   *rate
	queues [telling + 1][]queued
	told   int // writes under way that tell people something
	news   chan struct{}
}

func newWriter(client kubernetes.Interface, fetch fetcher, most float64, left func() time.Duration) *writer {
	return &writer{client: client, fetch: fetch, left: left, rate: newRate(most, time.Now()), news: make(chan struct{}, writers)}
}

// submit queues a write.
func (w *writer) submit(write picture.Write, done func(*picture.Outcome)) {
	w.mutex.Lock()
	at := priority(write.Kind)
	w.queues[at] = append(w.queues[at], queued{write, done})
	w.mutex.Unlock()
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// next returns the next write whose turn it is, or how long to wait; a long time if there is none.
func (w *writer) next() (q queued, found bool, pause time.Duration) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for i := range w.queues {
		if len(w.queues[i]) == 0 || i == telling && w.told == tellers {
			continue
		}
		if pause := w.rate.wait(time.Now()); pause > 0 {
			return q, false, pause
		}
		q, w.queues[i] = w.queues[i][0], w.queues[i][1:]
		if i == telling {
			w.told++
		}
		return q, true, 0
	}
	return q, false, time.Hour
}

// run carries out writes until ctx is cancelled.
func (w *writer) run(ctx context.Context) {
	var workers sync.WaitGroup
	for range writers {
		workers.Go(func() { w.work(ctx) })
	}
	workers.Wait()
}

func (w *writer) work(ctx context.Context) {
	for ctx.Err() == nil {
		q, found, pause := w.next()
		if !found {
			timer := time.NewTimer(pause)
			select {
			case <-ctx.Done():
			case <-w.news:
			case <-timer.C:
			}
			timer.Stop()
			continue
		}
		q.done(w.carryOut(ctx, &q.write))
		if priority(q.write.Kind) == telling {
			w.mutex.Lock()
			w.told--
			w.mutex.Unlock()
		}
	}
}

// carryOut makes one call, within the lease.
func (w *writer) carryOut(ctx context.Context, write *picture.Write) *picture.Outcome {
	left := w.left() - leaseMargin
	if left <= 0 {
		return &picture.Outcome{Kind: picture.Temporary, Message: "the lease of the scheduler ends"}
	}
	ctx, cancel := context.WithTimeout(ctx, min(left, writeTimeout))
	defer cancel()
	began := time.Now()
	outcome, err := w.call(ctx, write)
	seconds, asked := apierrors.SuggestsClientDelay(err)
	var timeout net.Error
	trouble := apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
	retryAfter := time.Duration(0)
	if asked {
		retryAfter = time.Duration(seconds) * time.Second
	}
	w.mutex.Lock()
	took := time.Since(began)
	w.rate.answered(time.Now(), took, trouble, retryAfter)
	perSecond := w.rate.perSecond
	w.mutex.Unlock()
	w.tally.wrote(write.Kind, outcome, err, took, perSecond)
	return outcome
}

func (w *writer) call(ctx context.Context, write *picture.Write) (*picture.Outcome, error) {
	pods := w.client.CoreV1().Pods(write.Namespace)
	switch write.Kind {
	case picture.Create:
		pod, err := pods.Create(ctx, write.Pod, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			pod, err = pods.Get(ctx, write.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) { // it has just been deleted
				return &picture.Outcome{Kind: picture.Temporary, Message: err.Error()}, err
			}
		} else if apierrors.IsNotFound(err) { // the namespace
			return &picture.Outcome{Kind: picture.Refused, Message: err.Error()}, err
		}
		return found(pod, err), err
	case picture.Find:
		pod, err := pods.Get(ctx, write.Name, metav1.GetOptions{})
		return found(pod, err), err
	case picture.Delete:
		err := pods.Delete(ctx, write.Name, metav1.DeleteOptions{GracePeriodSeconds: &write.Grace, Preconditions: &metav1.Preconditions{UID: &write.UID}})
		return outcomeOf(err), err
	case picture.Bind:
		return w.bind(ctx, write)
	case picture.Evict:
		return w.evict(ctx, write)
	case picture.Explain:
		return w.explain(ctx, write)
	case picture.ExplainGroup:
		return w.explainGroup(ctx, write)
	case picture.Release:
		_, err := pods.Patch(ctx, write.Name, types.StrategicMergePatchType, []byte(withoutFinalizer(write.UID)), metav1.PatchOptions{})
		return outcomeOf(err), err
	case picture.CreateFiles:
		return w.createFiles(ctx, write)
	case picture.DeleteFiles:
		err := w.client.CoreV1().ConfigMaps(write.Namespace).Delete(ctx, write.Name, metav1.DeleteOptions{})
		return outcomeOf(err), err
	case picture.Resize:
		return w.resize(ctx, write)
	default:
		return w.readLog(ctx, write)
	}
}

func found(pod *corev1.Pod, err error) *picture.Outcome {
	outcome := outcomeOf(err)
	if err == nil {
		outcome.Pod = pod
	}
	return outcome
}

// outcomeOf says what an answer of the API server means.
func outcomeOf(err error) *picture.Outcome {
	switch {
	case err == nil:
		return &picture.Outcome{Kind: picture.Done}
	case apierrors.IsNotFound(err), apierrors.IsGone(err), apierrors.IsConflict(err): // a conflict: the UID is another one
		return &picture.Outcome{Kind: picture.Missing, Message: err.Error()}
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err), apierrors.IsMethodNotSupported(err),
		apierrors.IsRequestEntityTooLargeError(err):
		return &picture.Outcome{Kind: picture.Refused, Message: err.Error()}
	}
	return &picture.Outcome{Kind: picture.Temporary, Message: err.Error()}
}

// readLog reads the end of a job's output.
func (w *writer) readLog(ctx context.Context, write *picture.Write) (*picture.Outcome, error) {
	stream, err := w.client.CoreV1().Pods(write.Namespace).GetLogs(write.Name, &corev1.PodLogOptions{Container: picture.Container}).Stream(ctx)
	if err != nil {
		return outcomeOf(err), err
	}
	defer stream.Close()
	output, err := lastOf(io.LimitReader(stream, readLog), min(write.Limit, maxLog))
	if err != nil {
		return &picture.Outcome{Kind: picture.Temporary, Message: err.Error()}, err
	}
	return &picture.Outcome{Kind: picture.Done, Output: output}, nil
}

// lastOf returns the last bytes of a stream.
func lastOf(stream io.Reader, limit int64) (*nodev1.Output, error) {
	var kept []byte
	var size int64
	piece := make([]byte, 32<<10)
	for {
		n, err := stream.Read(piece)
		kept = append(kept, piece[:n]...)
		size += int64(n)
		if over := int64(len(kept)) - limit; over > limit { // seldom, so that bytes are moved once on average
			kept = append(kept[:0], kept[over:]...)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if over := int64(len(kept)) - limit; over > 0 {
		kept = kept[over:]
	}
	skipped := size - int64(len(kept))
	if skipped > 0 {
		return &nodev1.Output{Tail: kept, Size: size, Skipped: skipped}, nil
	}
	return &nodev1.Output{Head: kept, Size: size}, nil
}
