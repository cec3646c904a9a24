package server

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// bootID is a file that holds another word after each start of the machine, where the
// system has one.
const bootID = "/proc/sys/kernel/random/boot_id"

// place tells this directory, on this machine since its start, from every copy of it: a
// volume that was cloned, or an image that runs elsewhere too. Empty: it cannot be told.
func place(dir string) string {
	boot, err := os.ReadFile(bootID)
	if err != nil {
		return ""
	}
	info, err := os.Stat(dir)
	if err != nil {
		return ""
	}
	at, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s %d:%d", strings.TrimSpace(string(boot)), at.Dev, at.Ino)
}

// noteSession notes a session, for the next life in this directory.
func noteSession(file, dir, token string) error {
	return os.WriteFile(file, []byte(token+"\n"+place(dir)+"\n"), 0o600)
}

// earlierSession is the token of the session that was noted last, if that was in this
// directory: whoever has a copy of it may be alive.
func earlierSession(file, dir string) (token string, ok bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", false
	}
	token, where, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return token, where != "" && where == place(dir)
}
