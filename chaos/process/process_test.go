package process_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-cdc/sluice/chaos/process"
)

// role is the variable that says what this program is when a test starts it.
const role = "SLUICE_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "echo": // says what it hears, and ends with its input
		_, _ = io.Copy(os.Stdout, os.Stdin)
		os.Exit(0)
	case "deaf": // minds no one
		signal.Ignore(syscall.SIGTERM)
		_, _ = fmt.Println("here")
		<-time.After(time.Hour)
	case "starter": // starts another, and says which
		p, err := process.Start(program("deaf"))
		if err != nil {
			panic(err)
		}
		if _, err := p.Out.Read(make([]byte, 5)); err != nil {
			panic(err)
		}
		_, _ = fmt.Println(p.PID())
		<-time.After(time.Hour)
	}
	goleak.VerifyTestMain(m)
}

func program(as string) process.Command {
	return process.Command{Name: as, Program: os.Args[0], Env: []string{role + "=" + as}, Talk: true}
}

const patience = 3 * time.Minute

func start(t *testing.T, c process.Command) *process.Process {
	t.Helper()
	p, err := process.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		_ = p.In.Close()
		_ = p.Out.Close()
	})
	return p
}

func TestTalksUntilItsInputEnds(t *testing.T) {
	p := start(t, program("echo"))
	if _, err := io.WriteString(p.In, "a word\n"); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(p.Out).ReadString('\n')
	if err != nil || line != "a word\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := p.Leave(patience); err != nil {
		t.Error(err)
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

// Who does not end when told to is killed, and that is told.
func TestWhoDoesNotEndIsKilled(t *testing.T) {
	p := start(t, program("deaf"))
	if _, err := p.Out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(50 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "still there") {
		t.Error(err)
	}
	if err := p.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Error(err)
	}
}

// Nothing stays behind a starter that is killed where it stands.
func TestEndsWithItsStarter(t *testing.T) {
	p := start(t, program("starter"))
	line, err := bufio.NewReader(p.Out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || !lives(pid) {
		t.Fatalf("%q, %v", line, err)
	}
	p.Kill()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(patience); lives(pid); <-look.C {
		if time.Now().After(end) {
			t.Fatalf("process %d is still there", pid)
		}
	}
}

// lives tells whether a process is there, and not only its memory.
func lives(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}

func TestWhatCannotStart(t *testing.T) {
	for _, c := range []process.Command{
		{Name: "nobody", Program: filepath.Join(t.TempDir(), "nobody"), Talk: true},
		{Name: "no log", Program: os.Args[0], Log: filepath.Join(t.TempDir(), "no", "log")},
	} {
		if _, err := process.Start(c); err == nil || !strings.Contains(err.Error(), "starting "+c.Name) {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}
