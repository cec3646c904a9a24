package mariadb

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver of DB
	"golang.org/x/sync/errgroup"

	"github.com/sluice-cdc/sluice/internal/freeport"
)

// Install is the command that installs the server on Debian.
const Install = "apt-get install -y mariadb-server"

// BinLog are options for a server that keeps a binary log of rows.
func BinLog() []string {
	return []string{"--log-bin=log", "--binlog-format=ROW", "--binlog-row-image=FULL", "--binlog-row-metadata=FULL", "--server-id=1"}
}

// startMax bounds a start: half a second on an idle machine, so that a minute
// is only reached where something is wrong.
const startMax = time.Minute

// stopMax is how long the server may take to shut down before it is killed.
const stopMax = 20 * time.Second

// Server is one running MariaDB.
type Server struct {
	Host string // 127.0.0.1
	Port int
	Dir  string // its data, socket and log

	program string    // the server's own
	options []string  // beside the usual ones
	stdin   io.Closer // closed: the server's keeper stops it
	cmd     *exec.Cmd
	log     *logTail
	group   *errgroup.Group
}

// Start is a server for one test or for a TestMain's tb: it fails tb where the
// server cannot start, and stops it when tb ends.
func Start(tb testing.TB, options ...string) *Server {
	tb.Helper()
	s, err := Open(tb.TempDir(), options...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// Open installs data in dir, which must be empty or hold what an earlier Open
// left, starts a server over it and returns when it answers. Options of the
// server, such as those of BinLog, come after the usual ones.
func Open(dir string, options ...string) (*Server, error) {
	server, install, err := binaries(append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/usr/local/sbin"))
	if err != nil {
		return nil, err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("mariadb: data directory: %w", err)
	}
	data := filepath.Join(dir, "data")
	if err := installData(install, data); err != nil {
		return nil, err
	}
	// Between the choice of a free port and its use another process may take
	// it; four tries make that a curiosity.
	for try := 1; ; try++ {
		port, err := freeport.Pick()
		if err != nil {
			return nil, err
		}
		s := &Server{Host: "127.0.0.1", Port: port, Dir: dir, program: server, options: options}
		err = s.launch()
		if err == nil {
			return s, nil
		}
		if try == 4 || !errors.Is(err, errPortTaken) {
			return nil, err
		}
	}
}

// binaries finds the server and the program that makes its first data.
func binaries(dirs []string) (server, install string, err error) {
	find := func(name string) string {
		for _, dir := range dirs {
			if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return p
			}
		}
		return ""
	}
	server, install = find("mariadbd"), find("mariadb-install-db")
	if server == "" || install == "" {
		return "", "", fmt.Errorf("mariadb: mariadbd is not installed; run: %s", Install)
	}
	return server, install, nil
}

func me() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "root"
}

func installData(program, data string) error {
	if _, err := os.Stat(filepath.Join(data, "mysql")); err == nil {
		return nil
	}
	// Small files first: a test writes little, and data is made for every package.
	cmd := exec.Command(program, "--no-defaults", "--user="+me(), "--datadir="+data,
		"--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-log-file-size=16M")
	// Temporary tables of its own, as in launch.
	tmp, err := os.MkdirTemp("", "mariadb")
	if err != nil {
		return fmt.Errorf("mariadb: directory for temporary tables: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }() // what stays is small, and in the system's own place for it
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mariadb: %s: %w\n%s", program, err, out)
	}
	return nil
}

var errPortTaken = errors.New("mariadb: the chosen port was taken before the server could listen")

// keeper starts the server as its child and stops it when its own input ends:
// on Close, and when the test binary dies in whatever way.
const keeper = `"$@" & child=$!; trap 'kill "$child"' TERM INT; read -r line; kill "$child" 2>/dev/null; wait "$child"`

// launch starts the server over its data, at its port.
func (s *Server) launch() error {
	// A socket's path may have no more than 107 bytes: tests' directories are longer.
	run, err := os.MkdirTemp("", "mariadb")
	if err != nil {
		return fmt.Errorf("mariadb: directory for the socket: %w", err)
	}
	args := slices.Concat([]string{"-c", keeper, "keeper", s.program, "--no-defaults",
		"--user=" + me(), "--datadir=" + filepath.Join(s.Dir, "data"), "--socket=" + filepath.Join(run, "s"), "--pid-file=" + filepath.Join(run, "pid"),
		// Of its own: a server that starts clears temporary tables out of its
		// tmpdir, those of every other server there too.
		"--tmpdir=" + run,
		"--bind-address=127.0.0.1", "--port=" + strconv.Itoa(s.Port), "--skip-log-bin",
		// What is committed is with the system, not on disk: it outlives the process.
		"--innodb-buffer-pool-size=128M", "--innodb-flush-log-at-trx-commit=2", "--innodb-log-file-size=96M",
		"--max-allowed-packet=64M", "--skip-name-resolve"}, s.options)
	cmd := exec.Command("/bin/sh", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a ^C at the terminal must not reach it before Close
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("mariadb: %w", err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("mariadb: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("mariadb: %w", err)
	}
	log := &logTail{ready: make(chan struct{}), gone: make(chan struct{})}
	s.stdin, s.cmd, s.group, s.log = stdin, cmd, new(errgroup.Group), log
	s.group.Go(func() error {
		log.read(stderr)
		_ = cmd.Wait()
		return os.RemoveAll(run)
	})
	return s.awaitReady()
}

// Kill ends the server's process where it stands, as a crash would. Restart
// brings it back.
func (s *Server) Kill() error {
	if s.stdin == nil {
		return nil
	}
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	_ = s.stdin.Close()
	s.stdin = nil
	return s.group.Wait()
}

// Restart starts a server that was closed or killed again, over the same data
// and at the same port.
func (s *Server) Restart() error {
	if err := s.Close(); err != nil {
		return err
	}
	return s.launch()
}

// awaitReady waits for the server's own word that it listens.
func (s *Server) awaitReady() error {
	timer := time.NewTimer(startMax)
	defer timer.Stop()
	select {
	case <-s.log.ready:
		return s.ping()
	case <-s.log.gone:
	case <-timer.C:
	}
	text := s.log.text()
	_ = s.Close()
	if strings.Contains(text, "Can't start server: Bind on TCP/IP port") {
		return errPortTaken
	}
	return fmt.Errorf("mariadb: the server did not start within %v; its log:\n%s", startMax, text)
}

func (s *Server) ping() error {
	db := s.DB()
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), startMax)
	defer cancel()
	if err := db.PingContext(ctx); err != nil {
		_ = s.Close()
		return fmt.Errorf("mariadb: the server at port %d does not answer: %w", s.Port, err)
	}
	return nil
}

// Close stops the server and waits for its end. A second call does nothing.
func (s *Server) Close() error {
	if s.stdin == nil {
		return nil
	}
	_ = s.stdin.Close()
	s.stdin = nil
	kill := time.AfterFunc(stopMax, func() { _ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) })
	defer kill.Stop()
	return s.group.Wait()
}

// Addr is host:port.
func (s *Server) Addr() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }

// URI is the sink URI of this server.
func (s *Server) URI() string { return "mysql://root@" + s.Addr() + "/" }

// DB is a pool of root's connections, in utf8mb4 and UTC. The caller closes it.
func (s *Server) DB() *sql.DB {
	db, err := sql.Open("mysql", "root@tcp("+s.Addr()+")/?charset=utf8mb4&time_zone=%27%2B00%3A00%27")
	if err != nil {
		panic("mariadb: the data source name is constant: " + err.Error())
	}
	return db
}

// logTail reads the server's log and keeps the end of it.
type logTail struct {
	ready chan struct{} // closed when the server says that it listens
	gone  chan struct{} // closed when the log ends or says that it gives up

	mu    sync.Mutex
	lines []string // the last 200: what a failed start says fits in
}

func (l *logTail) read(r io.Reader) {
	var ready, gone sync.Once
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 64<<10), 1<<20)
	for in.Scan() {
		line := in.Text()
		l.mu.Lock()
		l.lines = append(l.lines, line)
		if len(l.lines) > 200 {
			l.lines = l.lines[1:]
		}
		l.mu.Unlock()
		switch {
		case strings.Contains(line, "ready for connections"):
			ready.Do(func() { close(l.ready) })
		case strings.Contains(line, "[ERROR] Aborting"):
			gone.Do(func() { close(l.gone) })
		}
	}
	gone.Do(func() { close(l.gone) })
}

func (l *logTail) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}
