package server

import (
	"bytes"
	"math"
	"os"
	"strconv"
	"strings"
)

// Sizes of memory.
const (
	memoryLeast = 128 << 20
	memoryUsual = 1 << 30
	// memoryIdle is what a server takes that replicates nothing, as Go counts it: stacks,
	// the collector's room, but not code. What waits is far below the quota, so that the
	// limit leaves the collector enough to do with.
	memoryIdle = 64 << 20
)

// Memory is how a server's memory is shared out.
type Memory struct {
	Limit int64 // Go's own limit: past it the collector works harder
	Rows  int64 // for rows that wait
	Log   int64 // for rows of one changefeed that wait for their file of its redo log
}

// memory follows from the quota and the machine: machine is what the machine or
// the container has, 0 where that is not known.
func (c *Config) memory(machine int64) Memory {
	quota := c.MemoryQuota
	if quota == 0 {
		quota = memoryUsual
		if most := int64(float64(machine) * c.MemoryLimitPercentage); machine > 0 && most < quota {
			quota = max(most, memoryLeast)
		}
	}
	// Five eighths are for rows that wait, one for those that a redo log has copied and
	// not put yet. The rest is for what streams have received, transactions that are
	// being put together, and what is read from disk.
	return Memory{Limit: quota + memoryIdle, Rows: quota / 8 * 5, Log: quota / 8}
}

// machineMemory is what the machine has, or the container where that is less; 0
// where neither is told.
func machineMemory() int64 {
	least := int64(math.MaxInt64)
	for _, read := range []func() (int64, bool){
		func() (int64, bool) { return number("/sys/fs/cgroup/memory.max") },
		func() (int64, bool) { return number("/sys/fs/cgroup/memory/memory.limit_in_bytes") },
		total,
	} {
		if n, ok := read(); ok && n > 0 && n < least {
			least = n
		}
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}

// number is a file with one; "max" stands for none.
func number(path string) (int64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	return n, err == nil
}

// total is the memory that Linux says the machine has.
func total() (int64, bool) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return n << 10, err == nil
		}
	}
	return 0, false
}
