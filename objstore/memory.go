package objstore

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Memory is a bucket for tests and first tries: it lasts as long as it is held.
type Memory struct {
	mu      sync.Mutex
	objects map[string][]byte // guarded by mu; values are never changed
}

// NewMemory is an empty one.
func NewMemory() *Memory { return &Memory{objects: map[string][]byte{}} }

// Put implements Bucket.
func (m *Memory) Put(ctx context.Context, name string, data []byte) error {
	if err := ready(ctx, name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects[name] = bytes.Clone(data)
	return nil
}

// PutNew implements Bucket.
func (m *Memory) PutNew(ctx context.Context, name string, data []byte) error {
	if err := ready(ctx, name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.objects[name]; ok {
		return exists(m, name)
	}
	m.objects[name] = bytes.Clone(data)
	return nil
}

// Get implements Bucket.
func (m *Memory) Get(ctx context.Context, name string, offset, length int64) ([]byte, error) {
	if err := ready(ctx, name); err != nil {
		return nil, err
	}
	if err := checkRange(name, offset, length); err != nil {
		return nil, err
	}
	m.mu.Lock()
	data, ok := m.objects[name]
	m.mu.Unlock()
	if !ok {
		return nil, notFound(m, name)
	}
	data = data[min(offset, int64(len(data))):]
	if length != ToEnd {
		data = data[:min(length, int64(len(data)))]
	}
	return bytes.Clone(data), nil
}

// List implements Bucket.
func (m *Memory) List(ctx context.Context, prefix, after string, visit func(Object) error) error {
	m.mu.Lock()
	objects := maps.Clone(m.objects)
	m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if strings.HasPrefix(name, prefix) && name > after {
			if err := visit(Object{Name: name, Size: int64(len(objects[name]))}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Delete implements Bucket.
func (m *Memory) Delete(ctx context.Context, name string) error {
	if err := ready(ctx, name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, name)
	return nil
}

// String implements Bucket.
func (m *Memory) String() string { return "memory://" }

// Close implements Bucket.
func (m *Memory) Close() error { return nil }

// ready says why a call cannot begin.
func ready(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return CheckName(name)
}
