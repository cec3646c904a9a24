package mariadb

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestServerAnswersAndStops(t *testing.T) {
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	db := s.DB()
	var version string
	if err := db.QueryRow("select version()").Scan(&version); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(version, "MariaDB") {
		t.Fatalf("version %q", version)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", s.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("after Close: %v", err)
	}
}

func TestMissingServerNamesTheCommand(t *testing.T) {
	_, _, err := binaries([]string{t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "apt-get install -y mariadb-server") {
		t.Fatalf("got %v", err)
	}
}

// What was committed is there after a crash and a restart, at the same address.
func TestKillAndRestart(t *testing.T) {
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	db := s.DB()
	defer db.Close()
	for _, text := range []string{"create database d", "create table d.t (a int)", "insert into d.t values (7)"} {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", s.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("after Kill: %v", err)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	var a int
	if err := db.QueryRow("select a from d.t").Scan(&a); err != nil || a != 7 {
		t.Fatal(a, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
