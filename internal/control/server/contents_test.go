package server

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/control/blob"
	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
	"github.com/weirhq/weir/internal/node/podfiles"
	"github.com/weirhq/weir/internal/value/checksum"
)

// leadWithBlobs leads with a blob storage in the directory.
func leadWithBlobs(t *testing.T, directory string) *scheduler {
	t.Helper()
	blobs, err := blob.Directory(filepath.Join(directory, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	return leadWith(t, directory, Options{Settings: quickSettings(), Blobs: blobs})
}

// refusalOf is why a node was refused.
func refusalOf(err error) nodev1.RefusalReason {
	var refused *nodeproto.RefusedError
	if !errors.As(err, &refused) {
		return nodev1.RefusalReason_REFUSAL_REASON_UNSPECIFIED
	}
	return refused.Reason
}

func TestANodeFetchesOnlyWhatItsJobsName(t *testing.T) {
	s := leadWithBlobs(t, t.TempDir())
	s.pools("{pools: {p: {}}}")
	mine, archive, other := strings.Repeat("mine", 2<<20), "a directory", "of another job"
	for _, content := range []string{mine, archive, other} {
		stored, err := s.PutContent(t.Context(), "ann", strings.NewReader(content), -1, checksum.Sum{})
		if err != nil {
			t.Fatal(err)
		}
		defer stored.Release()
	}
	m, stranger := newMachine(t, "node-1", 1), newMachine(t, "node-2", 0)
	m.beat(s)
	stranger.beat(s)
	s.start(fmt.Sprintf("{pool: p, tasks: {t: {job_count: 1, command: x, file_paths: [{file_name: f, sha256: %s, size: %d}, {file_name: d, sha256: %s, size: %d, unpack: true}]}}}",
		checksum.Of([]byte(mine)), len(mine), checksum.Of([]byte(archive)), len(archive)))
	s.eventually("the job runs", func() bool { m.beat(s); return len(m.jobs) == 1 })
	var number uint64
	for number = range m.jobs {
	}
	fetch := func(node *machine, job uint64, content string, offset int64) (*nodev1.FetchContentResponse, error) {
		sum := checksum.Of([]byte(content))
		return s.NodeService().FetchContent(t.Context(), nodeproto.Peer{}, &nodev1.FetchContentRequest{
			NodeName: node.name, Incarnation: node.session.Incarnation(), Job: job, Sha256: sum[:], Offset: offset,
		})
	}
	got := ""
	for len(got) < len(mine) {
		piece, err := fetch(m, number, mine, int64(len(got)))
		if err != nil || piece.GetTotal() != int64(len(mine)) || len(piece.GetData()) == 0 || len(piece.GetData()) > maxFetchPiece {
			t.Fatalf("at %d: %d bytes, %v", len(got), len(piece.GetData()), err)
		}
		got += string(piece.GetData())
	}
	if got != mine {
		t.Error("the content differs")
	}
	if piece, err := fetch(m, number, archive, 0); err != nil || string(piece.GetData()) != archive {
		t.Errorf("the archive of a directory: %q, %v", piece.GetData(), err)
	}
	for name, err := range map[string]error{
		"a content that the job does not name": second(fetch(m, number, other, 0)),
		"a job of another node":                second(fetch(stranger, number, mine, 0)),
		"a job that does not exist":            second(fetch(m, number+1, mine, 0)),
		"no sum": second(s.NodeService().FetchContent(t.Context(), nodeproto.Peer{}, &nodev1.FetchContentRequest{
			NodeName: m.name, Incarnation: m.session.Incarnation(), Job: number,
		})),
	} {
		if refusalOf(err) != nodev1.RefusalReason_REFUSAL_REASON_INVALID {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.stop()
}

func second[T any](_ T, err error) error { return err }

func TestArtifactsArriveInPiecesAndCountInTheQuota(t *testing.T) {
	directory := t.TempDir()
	s := leadWithBlobs(t, directory)
	s.pools("{pools: {p: {}}}")
	m := newMachine(t, "node-1", 2)
	m.beat(s)
	s.start("{pool: p, tasks: {t: {job_count: 1, command: x, artifact_paths: [out]}}}")
	s.eventually("the job runs", func() bool { m.beat(s); return len(m.jobs) == 1 })
	var number uint64
	for number = range m.jobs {
	}
	archive := []byte(strings.Repeat("archive", 1000))
	sum := checksum.Of(archive)
	list := &nodev1.ArtifactList{Files: []*nodev1.Artifact{{Path: "out/a", Size: 7, Mode: 0o644}}}
	send := func(from, to int64, list *nodev1.ArtifactList, change func(*nodev1.UploadArtifactsRequest)) (int64, error) {
		request := &nodev1.UploadArtifactsRequest{
			NodeName: m.name, Incarnation: m.session.Incarnation(), Job: number, Offset: from, Data: archive[from:to], Total: int64(len(archive)), Sha256: sum[:], List: list,
		}
		if change != nil {
			change(request)
		}
		response, err := s.NodeService().UploadArtifacts(t.Context(), nodeproto.Peer{}, request)
		return response.GetNextOffset(), err
	}
	settings := s.Settings()
	settings.FileQuota = int64(len(archive)) - 1
	s.Configure(settings)
	if _, err := send(0, 100, nil, nil); refusalOf(err) != nodev1.RefusalReason_REFUSAL_REASON_QUOTA || !strings.Contains(err.Error(), "quota of 6999") {
		t.Errorf("above the quota: %v", err)
	}
	settings.FileQuota = int64(len(archive))
	s.Configure(settings)
	if next, err := send(0, 1000, nil, nil); next != 1000 || err != nil {
		t.Errorf("the first piece: %d, %v", next, err)
	}
	if next, err := send(0, 1000, nil, nil); next != 1000 || err != nil {
		t.Errorf("the same piece again: %d, %v", next, err)
	}
	if next, err := send(3000, 4000, nil, nil); next != 1000 || err != nil {
		t.Errorf("a piece too early: %d, %v", next, err)
	}
	for name, change := range map[string]func(*nodev1.UploadArtifactsRequest){
		"too large": func(r *nodev1.UploadArtifactsRequest) { r.Total = settings.MaxFileSize + 1 },
		"no sum":    func(r *nodev1.UploadArtifactsRequest) { r.Sha256 = nil },
		"no job":    func(r *nodev1.UploadArtifactsRequest) { r.Job++ },
		"another sum": func(r *nodev1.UploadArtifactsRequest) {
			r.Sha256 = bytes.Repeat([]byte{1}, 32)
			r.Offset = 0
			r.Data = archive
		},
	} {
		if _, err := send(1000, 7000, list, change); refusalOf(err) != nodev1.RefusalReason_REFUSAL_REASON_INVALID {
			t.Errorf("%s: %v", name, err)
		}
	}
	for range 2 { // the acknowledgement may be lost
		if next, err := send(1000, 7000, list, nil); next != 7000 || err != nil {
			t.Errorf("the last piece: %d, %v", next, err)
		}
	}
	uses, err := s.Store().OperationContents(t.Context(), 1, number)
	if err != nil || len(uses) != 1 || uses[0].Content != sum.String() || uses[0].Size != int64(len(archive)) {
		t.Fatalf("got %v, %v", uses, err)
	}
	if described, ok, err := ReadArtifacts(&uses[0]); !ok || err != nil || len(described.Files) != 1 || described.Files[0].Path != "out/a" {
		t.Errorf("got %v %v %v", described, ok, err)
	}
	if left, err := os.ReadDir(filepath.Join(directory, "blobs", "uploads")); err != nil || len(left) > 0 {
		t.Errorf("uploads are left: %v, %v", left, err)
	}
	s.stop()
}

// leaveFiles uploads an archive of one file for a job.
func (m *machine) leaveFiles(s *scheduler, number uint64, archive string) {
	m.t.Helper()
	sum := checksum.Of([]byte(archive))
	_, err := s.NodeService().UploadArtifacts(m.t.Context(), nodeproto.Peer{}, &nodev1.UploadArtifactsRequest{
		NodeName: m.name, Incarnation: m.session.Incarnation(), Job: number, Data: []byte(archive), Total: int64(len(archive)), Sha256: sum[:],
		List: &nodev1.ArtifactList{Files: []*nodev1.Artifact{{Path: "out", Size: 1}}},
	})
	if err != nil {
		m.t.Fatal(err)
	}
}

func TestAJobThatRestartsGetsTheFilesOfItsLastAttemptAlsoFromTheNextLeader(t *testing.T) {
	directory := t.TempDir()
	s := leadWithBlobs(t, directory)
	s.pools("{pools: {p: {}}}")
	m := newMachine(t, "node-1", 2)
	m.beat(s)
	s.start("{pool: p, tasks: {t: {job_count: 2, command: x, artifact_paths: [out], restore_artifacts: true}}}")
	s.eventually("the jobs run", func() bool { m.beat(s); return len(m.jobs) == 2 })
	first := m.some()
	if !m.jobs[first].Spec.GetArtifacts().GetOfAborted() || m.jobs[first].Restore != nil {
		t.Errorf("the first attempt starts with %v", m.jobs[first])
	}
	cookie := m.jobs[first].Identity.GetCookie()
	attempt := func(from uint64, files string) (next uint64) {
		t.Helper()
		m.leaveFiles(s, from, files)
		m.end(from, nodev1.JobState_JOB_STATE_ABORTED, "preemption")
		s.eventually("the job restarts", func() bool { m.beat(s); return len(m.jobs) == 2 })
		for number, start := range m.jobs {
			if start.Identity.GetCookie() == cookie {
				next = number
			} else if start.Restore != nil {
				t.Errorf("the other job gets %v", start.Restore)
			}
		}
		sum := checksum.Of([]byte(files))
		if got := m.jobs[next].Restore; !bytes.Equal(got.GetSha256(), sum[:]) || got.GetSize() != int64(len(files)) {
			t.Errorf("the next attempt gets %v, want %s", got, sum)
		}
		piece, err := s.NodeService().FetchContent(t.Context(), nodeproto.Peer{}, &nodev1.FetchContentRequest{
			NodeName: m.name, Incarnation: m.session.Incarnation(), Job: next, Sha256: sum[:],
		})
		if err != nil || string(piece.GetData()) != files {
			t.Errorf("the node fetches %q, %v", piece.GetData(), err)
		}
		return next
	}
	attempt(attempt(first, "step 1"), "step 2")
	uses, err := s.Store().OperationContents(t.Context(), 1, 0)
	if err != nil || len(uses) != 1 {
		t.Errorf("the files of %d attempts are kept, %v", len(uses), err)
	}
	s.stop()

	s = leadWithBlobs(t, directory)
	m.session = nodeproto.NewNodeSession(&nodev1.NodeDescription{Name: m.name, Resources: &nodev1.Amounts{UserSlots: 2, Cpu: 200, Memory: 2 << 30}}, 2, nil)
	clear(m.jobs) // the node has lost them
	s.eventually("the jobs run again", func() bool { m.beat(s); return len(m.jobs) == 2 })
	sum := checksum.Of([]byte("step 2"))
	for _, start := range m.jobs {
		if start.Identity.GetCookie() == cookie && !bytes.Equal(start.Restore.GetSha256(), sum[:]) {
			t.Errorf("the job gets %v from the next leader", start.Restore)
		}
	}
	s.stop()
}

// The pod of a job has a token for the files of this job: it fetches what the job names and stores what the job leaves.
func TestTheTokenOfAJobOpensItsOwnFilesOnly(t *testing.T) {
	directory := t.TempDir()
	s := leadWithBlobs(t, directory)
	s.pools("{pools: {p: {}}}")
	stored, err := s.PutContent(t.Context(), "ann", strings.NewReader("mine"), -1, checksum.Sum{})
	if err != nil {
		t.Fatal(err)
	}
	defer stored.Release()
	m := newMachine(t, "node-1", 2)
	m.beat(s)
	s.start(fmt.Sprintf("{pool: p, tasks: {t: {job_count: 2, command: x, artifact_paths: [out], file_paths: [{file_name: f, sha256: %s, size: 4}]}}}", stored.Sum))
	s.eventually("the jobs run", func() bool { m.beat(s); return len(m.jobs) == 2 })
	var tokens []string
	var numbers []uint64
	for number, start := range m.jobs {
		numbers, tokens = append(numbers, number), append(tokens, podfiles.TokenOf(number, start.Identity.GetProof()))
	}
	fetch := func(token string, job uint64) (string, error) {
		piece, err := s.FetchForPod(t.Context(), token, &nodev1.FetchContentRequest{Job: job, Sha256: stored.Sum[:]})
		return string(piece.GetData()), err
	}
	for i, number := range numbers {
		if got, err := fetch(tokens[i], number); got != "mine" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		for name, err := range map[string]error{
			"the token of another job": second(fetch(tokens[1-i], number)), "no token": second(fetch("", number)), "no job": second(fetch(tokens[i], number+100)),
		} {
			if refusalOf(err) != nodev1.RefusalReason_REFUSAL_REASON_UNKNOWN_TOKEN {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	archive := []byte("archive")
	sum := checksum.Of(archive)
	keep := func(token string) (int64, error) {
		response, err := s.KeepForPod(t.Context(), token, &nodev1.UploadArtifactsRequest{
			Job: numbers[0], Data: archive, Total: int64(len(archive)), Sha256: sum[:], List: &nodev1.ArtifactList{Files: []*nodev1.Artifact{{Path: "out/a", Size: 7}}},
		})
		return response.GetNextOffset(), err
	}
	if _, err := keep(tokens[1]); refusalOf(err) != nodev1.RefusalReason_REFUSAL_REASON_UNKNOWN_TOKEN {
		t.Errorf("the token of another job: %v", err)
	}
	if next, err := keep(tokens[0]); next != int64(len(archive)) || err != nil {
		t.Errorf("%d, %v", next, err)
	}
	s.stop()
}
