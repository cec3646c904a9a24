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
