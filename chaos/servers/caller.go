package servers

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// owns tells whether a process has the other end of a connection on this machine.
// The kernel knows which socket that is, and whose.
func owns(pid int, socket string) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	all, err := os.ReadDir(dir)
	if err != nil {
		return false // it has ended
	}
	return slices.ContainsFunc(all, func(e os.DirEntry) bool {
		to, err := os.Readlink(filepath.Join(dir, e.Name()))
		return err == nil && to == socket
	})
}

// socketOf names the socket at the other end of a connection on this machine, as it
// stands among the files of a process; "" where it is gone.
func socketOf(c net.Conn) string {
	there, here := kernelForm(c.RemoteAddr()), kernelForm(c.LocalAddr())
	f, err := os.Open("/proc/net/tcp")
	if err != nil {
		return ""
	}
	defer f.Close()
	const local, remote, inode = 1, 2, 9
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if w := strings.Fields(lines.Text()); len(w) > inode && w[local] == there && w[remote] == here {
			return "socket:[" + w[inode] + "]"
		}
	}
	return ""
}

// kernelForm is an address as /proc/net/tcp has it: the four bytes of the host in the
// order of a machine that is little-endian, and the port.
func kernelForm(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok || tcp.IP.To4() == nil {
		return ""
	}
	ip := slices.Clone(tcp.IP.To4())
	slices.Reverse(ip)
	return fmt.Sprintf("%s:%04X", strings.ToUpper(hex.EncodeToString(ip)), tcp.Port)
}
