package freeport

import (
	"net"
	"os"
	"testing"
)

// What is picked can be listened at, again and again, and is not the kernel's to give.
func TestPick(t *testing.T) {
	text, _ := os.ReadFile(given)
	from, to := outside(string(text))
	for range 50 {
		address, err := PickAddress()
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			l, err := net.Listen("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			port := l.Addr().(*net.TCPAddr).Port
			if from < to && (port < from || port >= to) {
				t.Errorf("port %d does not lie from %d to %d", port, from, to)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestOutside(t *testing.T) {
	for text, want := range map[string][2]int{
		"":               {10000, 32768},
		"nonsense":       {10000, 32768},
		"32768\t60999\n": {10000, 32768},
		"1024 20000":     {20001, 65536},
		"15000 65535":    {10000, 15000},
		"1024 65535":     {0, 0},
		"10500 65000":    {0, 0},
	} {
		if from, to := outside(text); from != want[0] || to != want[1] {
			t.Errorf("%q: from %d to %d, want %v", text, from, to, want)
		}
	}
}
