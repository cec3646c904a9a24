package playground

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/internal/mariadb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const golden = "../testdata/golden"

// goldenDirs are all directories that hold recordings.
func goldenDirs(t *testing.T) []string {
	t.Helper()
	kafka, err := filepath.Glob(golden + "/kafka/*/*.meta.jsonl.gz")
	if err != nil || len(kafka) == 0 {
		t.Fatal("no recordings", err)
	}
	dirs := []string{golden, golden + "/workloads"}
	for _, meta := range kafka {
		dirs = append(dirs, filepath.Dir(meta))
	}
	return dirs
}

// recordings are all of them, and where time is short a few that differ in kind.
func recordings(t *testing.T) []string {
	t.Helper()
	if testing.Short() {
		return []string{golden + "/08_txn.jsonl.gz", golden + "/11_partition.jsonl.gz", golden + "/13_ddl_column.jsonl.gz", golden + "/21_flashback_db.jsonl.gz"}
	}
	return goldenDirs(t)
}

// command runs the playground and returns what it printed.
func command(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, words bytes.Buffer
	status = Main(t.Context(), args, &out, &words)
	return status, out.String(), words.String()
}

var lineForm = regexp.MustCompile(`^(\S+) rows=(equal|differ\(\d+\)) end=(equal|differ\(\d+\)|listed\(\d+\)) \d+\.\d$`)

// wantEqual checks the lines of a run in which nothing may differ.
func wantEqual(t *testing.T, stdout string, recordings int) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if len(lines) != recordings {
		t.Errorf("%d lines for %d recordings", len(lines), recordings)
	}
	for _, l := range lines {
		if !lineForm.MatchString(l) || strings.Contains(l, "differ") {
			t.Error(l)
		}
	}
}

func TestEveryRecordingIntoNothing(t *testing.T) {
	args := []string{"--sink-uri", "blackhole://", "--verify"}
	dirs := recordings(t)
	for _, d := range dirs {
		args = append(args, "--recording", d)
	}
	status, stdout, stderr := command(t, args...)
	if status != allEqual {
		t.Errorf("status %d\n%s", status, stderr)
	}
	all, err := findRecordings(dirs)
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, stdout, len(all))
}

// Everything that a real MariaDB can hold is in it at the end; and nothing of
// the recordings is refused by it.
func TestEveryRecordingIntoMariaDB(t *testing.T) {
	server := mariadb.Start(t)
	dirs := recordings(t)
	args := []string{"--sink-uri", server.URI(), "--verify"}
	for _, d := range dirs {
		args = append(args, "--recording", d)
	}
	status, stdout, stderr := command(t, args...)
	if status != allEqual {
		t.Errorf("status %d\n%s", status, stderr)
	}
	all, err := findRecordings(dirs)
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, stdout, len(all))
	for _, l := range strings.Split(stderr, "\n") {
		if strings.Contains(l, "left out") || strings.Contains(l, "is not in the database") || strings.Contains(l, "compared by what the database can show") {
			t.Log(l)
		}
	}
	if gone := "12_ddl_table end: test.gtmp is not in the database: global temporary tables"; !testing.Short() && !strings.Contains(stderr, gone) {
		t.Errorf("nothing says %q", gone)
	}
}

// The demo: it writes into the database in this process, and stays up for a
// client until it is told to end.
func TestTheDemoStaysUp(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var stdout bytes.Buffer
	said, talk := io.Pipe()
	up := make(chan string, 1)
	go func() { // reads until the demo has ended
		defer close(up)
		text, buf := "", make([]byte, 4096)
		for {
			n, err := said.Read(buf)
			if err != nil {
				return
			}
			before := strings.Contains(text, "Ctrl-C ends")
			if text += string(buf[:n]); !before && strings.Contains(text, "Ctrl-C ends") {
				up <- text
			}
		}
	}()
	status := make(chan int, 1)
	go func() {
		status <- Main(ctx, []string{"--recording", golden + "/workloads/onlinemodify.jsonl.gz", "--speed", "0"}, &stdout, talk)
		_ = talk.Close()
	}()
	text, ok := <-up
	if !ok {
		t.Fatal("it ended: ", stdout.String())
	}
	port := regexp.MustCompile(`-P (\d+)`).FindStringSubmatch(text)
	if port == nil {
		t.Fatal("does not say how to connect: ", text)
	}
	db := openDSN(t, "root@tcp(127.0.0.1:"+port[1]+")/test")
	var n int
	if err := db.QueryRow("SELECT COUNT(*) FROM om4").Scan(&n); err != nil || n != 482 {
		t.Error(n, err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	end()
	if s := <-status; s != allEqual {
		t.Errorf("status %d", s)
	}
	wantEqual(t, stdout.String(), 1)
	for range up {
	}
}

// copyRecording makes a recording of one's own to spoil.
func copyRecording(t *testing.T, name string) (dir, stem string) {
	t.Helper()
	dir = t.TempDir()
	files, err := filepath.Glob(golden + "/" + name + ".*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(f)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, filepath.Join(dir, name)
}

func replaceIn(t *testing.T, path, old, with string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte(old)) {
		t.Fatalf("%s: no %s", path, old)
	}
	if err := os.WriteFile(path, bytes.Replace(text, []byte(old), []byte(with), 1), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestADifferenceIsStatusOne(t *testing.T) {
	dir, stem := copyRecording(t, "09_conflict")
	expected := stem + ".expected.jsonl"
	text, err := os.ReadFile(expected)
	if err != nil {
		t.Fatal(err)
	}
	cell := regexp.MustCompile(`"v":"(\d+)"`).FindString(string(text))
	replaceIn(t, expected, cell, `"v":"4711"`)
	status, stdout, stderr := command(t, "--recording", dir, "--recording", golden+"/20_system.jsonl.gz", "--sink-uri", "blackhole://", "--verify")
	if status != differs || !strings.HasPrefix(stdout, "09_conflict rows=equal end=differ(1) ") {
		t.Errorf("status %d: %s", status, stdout)
	}
	if !strings.Contains(stderr, `v: want "4711"`) {
		t.Error(stderr)
	}
	if !strings.Contains(stdout, "20_system rows=equal end=equal") {
		t.Error("the next one did not run: ", stdout)
	}
}

// Each way in which a run cannot be: its own message, status 2, nothing on stdout.
func TestWhatCannotRunIsStatusTwo(t *testing.T) {
	cut, stem := copyRecording(t, "20_system")
	stream, err := os.ReadFile(stem + ".jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(stem+".jsonl.gz", stream[:len(stream)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	later, stem := copyRecording(t, "20_system")
	replaceIn(t, stem+".expected.jsonl", `"end_ts":`, `"end_ts":99,"was":`)
	for name, c := range map[string]struct {
		args []string
		text string
	}{
		"contents of another moment": {[]string{"--recording", later, "--sink-uri", "blackhole://", "--verify"}, "holds the contents at end_ts 99"},
		"missing recording":          {[]string{"--recording", golden + "/99_none.jsonl.gz", "--sink-uri", "blackhole://", "--verify"}, "99_none.jsonl.gz"},
		"one of two missing":         {[]string{"--recording", golden + "/20_system.jsonl.gz", "--recording", "nowhere", "--sink-uri", "blackhole://", "--verify"}, "nowhere"},
		"bad flag":                   {[]string{"--speed", "x"}, "--speed x"},
		"bad scheme":                 {[]string{"--recording", golden + "/20_system.jsonl.gz", "--sink-uri", "kafka://x", "--verify"}, `scheme "kafka"`},
		"no scheme":                  {[]string{"--recording", golden + "/20_system.jsonl.gz", "--sink-uri", "somewhere", "--verify"}, "no scheme"},
		"nobody listens":             {[]string{"--recording", golden + "/20_system.jsonl.gz", "--sink-uri", "mysql://root:secret@127.0.0.1:1/", "--verify"}, "CDC:ErrMySQLConnectionError"},
		"a stream cut short":         {[]string{"--recording", cut, "--sink-uri", "blackhole://", "--verify"}, "20_system: could not run: [CDC:ErrRecordingInvalid]"},
	} {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := command(t, c.args...)
			if status != couldNotRun || stdout != "" || !strings.Contains(stderr, c.text) || strings.Contains(stderr, "secret") {
				t.Errorf("status %d, stdout %q, stderr %q", status, stdout, stderr)
			}
		})
	}
}

// spoilStream rewrites the lines of a recording's stream.
func spoilStream(t *testing.T, stem string, spoil func(lines string) string) {
	t.Helper()
	path := stem + ".jsonl.gz"
	text, err := readFile(t.Context(), path, func(_ string, in io.Reader) (string, error) {
		b, err := io.ReadAll(in)
		return string(b), err
	})
	if err != nil {
		t.Fatal(err)
	}
	spoiled := spoil(text)
	if spoiled == text {
		t.Fatal("nothing was spoiled")
	}
	writeFile(t, path, spoiled)
}

// Bad bytes from upstream: each kind has its own code, and stops the run.
func TestBadBytesFromUpstream(t *testing.T) {
	inHex := func(s string) string { return hex.EncodeToString([]byte(s)) }
	for name, c := range map[string]struct {
		recording string
		spoil     func(string) string
		code      *cdcerr.Code
		text      string
	}{
		"a row cut short": {"09_conflict", func(s string) string {
			row := regexp.MustCompile(`"value":"(80000[0-9a-f]+)"`)
			return row.ReplaceAllStringFunc(s, func(v string) string { return v[:len(v)-5] + `"` })
		}, cdcerr.CorruptRow, "key"},
		"a row that is not what its checksum says": {"08_txn", func(s string) string {
			return strings.ReplaceAll(s, inHex("cksum2"), inHex("cksum3"))
		}, cdcerr.ChecksumMismatch, "key"},
		"an action that nobody knows": {"13_ddl_column", func(s string) string {
			return strings.ReplaceAll(s, inHex(`"type":61,`), inHex(`"type":99,`))
		}, cdcerr.UnknownDDL, "99"},
		"a job that is no JSON": {"20_system", func(s string) string {
			return strings.ReplaceAll(s, inHex(`{"id":`), inHex(`["id":`))
		}, cdcerr.InvalidDDLJob, "job"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, stem := copyRecording(t, c.recording)
			spoilStream(t, stem, c.spoil)
			status, stdout, stderr := command(t, "--recording", dir, "--sink-uri", "blackhole://", "--verify")
			if status != couldNotRun || stdout != "" || !strings.Contains(stderr, c.code.ID) || !strings.Contains(stderr, c.text) {
				t.Errorf("status %d, stdout %q, stderr %q", status, stdout, stderr)
			}
		})
	}
}

// A database that somebody uses is not written, and not dropped unasked.
func TestAUsedDatabaseIsRefused(t *testing.T) {
	server := mariadb.Start(t)
	db := server.DB()
	defer db.Close()
	for _, q := range []string{"CREATE DATABASE test", "CREATE TABLE test.mine (a int)", "INSERT INTO test.mine VALUES (7)"} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	run := []string{"--recording", golden + "/20_system.jsonl.gz", "--sink-uri", server.URI(), "--verify"}
	status, stdout, stderr := command(t, run...)
	if status != couldNotRun || stdout != "" || !strings.Contains(stderr, "--drop-existing") {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
	var n int
	if err := db.QueryRow("SELECT a FROM test.mine").Scan(&n); err != nil || n != 7 {
		t.Fatal(n, err)
	}
	status, stdout, stderr = command(t, append(run, "--drop-existing")...)
	if status != allEqual {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
	// What the playground left it may take away again, as long as that is all.
	if status, _, stderr = command(t, run...); status != allEqual {
		t.Errorf("again: status %d, %q", status, stderr)
	}
	if _, err := db.Exec("CREATE TABLE test.mine (a int)"); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr = command(t, run...); status != couldNotRun || !strings.Contains(stderr, "not on the playground's record") || !strings.Contains(stderr, ": test.mine;") {
		t.Errorf("beside its own: status %d, %q", status, stderr)
	}
	if _, err := db.Exec("DROP TABLE test.mine"); err != nil {
		t.Error("it is gone: ", err)
	}
	// A run into other databases forgets nothing.
	other := []string{"--recording", golden + "/21_flashback_db.jsonl.gz", "--sink-uri", server.URI(), "--verify"}
	for _, args := range [][]string{run, other, run, other} {
		if status, stdout, stderr = command(t, args...); status != allEqual {
			t.Errorf("%v: status %d, %q, %q", args, status, stdout, stderr)
		}
	}
}

// What a run will touch is not always known when it begins: without its list of
// jobs, a recording says only at a CREATE DATABASE that it makes one.
func TestADatabaseMetInTheMiddleIsNotLost(t *testing.T) {
	server := mariadb.Start(t)
	db := server.DB()
	defer db.Close()
	for _, q := range []string{"CREATE DATABASE db2", "CREATE TABLE db2.precious (a int)", "INSERT INTO db2.precious VALUES (42)"} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	dir, stem := copyRecording(t, "12_ddl_table")
	if err := os.Remove(stem + ".ddl.jsonl.gz"); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := command(t, "--recording", dir, "--sink-uri", server.URI(), "--verify")
	if status != couldNotRun || stdout != "" || !strings.Contains(stderr, "db2.precious") {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
	var n int
	if err := db.QueryRow("SELECT a FROM db2.precious").Scan(&n); err != nil || n != 42 {
		t.Error("it is gone: ", n, err)
	}
}

// A database without tables may hold somebody's routines.
func TestADatabaseOfRoutinesIsNotEmpty(t *testing.T) {
	server := mariadb.Start(t)
	db := server.DB()
	defer db.Close()
	for _, q := range []string{"CREATE DATABASE test", "CREATE PROCEDURE test.mine() SELECT 7"} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	status, stdout, stderr := command(t, "--recording", golden+"/20_system.jsonl.gz", "--sink-uri", server.URI(), "--verify")
	if status != couldNotRun || stdout != "" || !strings.Contains(stderr, "test.mine") {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
	var n int
	if err := db.QueryRow("CALL test.mine()").Scan(&n); err != nil || n != 7 {
		t.Error("it is gone: ", n, err)
	}
}

// What the downstream has nothing for stops that recording, not the next.
func TestARefusedRecordingDoesNotStopTheNext(t *testing.T) {
	e := serve(t)
	status, stdout, stderr := command(t, "--recording", golden+"/07_pk_kinds.jsonl.gz", "--recording", golden+"/20_system.jsonl.gz",
		"--sink-uri", e.URI(), "--verify")
	if status != couldNotRun || !strings.HasPrefix(stdout, "20_system rows=equal end=equal") {
		t.Errorf("status %d, %q", status, stdout)
	}
	if !strings.Contains(stderr, "07_pk_kinds: could not run: ") || !strings.Contains(stderr, "CDC:ErrExecDDLFailed") {
		t.Error(stderr)
	}
}

// The limits of the database in this process stand beside what failed in it.
func TestTheEmbeddedDatabasesLimitsAreTold(t *testing.T) {
	const words = "Not all of this need be Sluice's doing"
	status, _, stderr := command(t, "--recording", golden+"/07_pk_kinds.jsonl.gz", "--verify")
	if status != couldNotRun || !strings.Contains(stderr, words) || !strings.Contains(stderr, "keys on prefixes") {
		t.Errorf("status %d, %q", status, stderr)
	}
	if status, _, stderr = command(t, "--recording", golden+"/20_system.jsonl.gz", "--verify"); status != allEqual || strings.Contains(stderr, words) {
		t.Errorf("status %d, %q", status, stderr)
	}
}

func TestAnInterruptedRunEnds(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	var stdout, stderr bytes.Buffer
	end()
	if status := Main(ctx, []string{"--recording", golden + "/workloads/bank.jsonl.gz", "--sink-uri", "blackhole://"}, &stdout, &stderr); status != couldNotRun || stdout.Len() > 0 {
		t.Errorf("status %d %s %s", status, stdout.String(), stderr.String())
	}
}
