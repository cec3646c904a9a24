package objstore

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// Object is one entry of a listing.
type Object struct {
	Name string
	Size int64
}

// ToEnd is the length of a Get that has no end but the object's.
const ToEnd int64 = -1

// Bucket keeps objects. All methods may be called by many at once. Names are
// relative, separated by '/', and what CheckName lets through; of two names none
// may be the other's folder, since a directory cannot hold both.
type Bucket interface {
	// Put stores an object, in place of any that has the name.
	Put(ctx context.Context, name string, data []byte) error
	// PutNew stores an object if there is none of the name, else it fails with
	// cdcerr.ObjectExists. A client that sent it twice, because an answer was lost,
	// may be told so of its own object: see PutOnce.
	PutNew(ctx context.Context, name string, data []byte) error
	// Get is length bytes from offset on, fewer where the object ends; ToEnd is all
	// of them. An object that is not there is cdcerr.ObjectNotFound.
	Get(ctx context.Context, name string, offset, length int64) ([]byte, error)
	// List visits the objects whose names begin with prefix and come after the name
	// after, in the order of their bytes. An error of visit ends it.
	List(ctx context.Context, prefix, after string, visit func(Object) error) error
	// Delete removes an object; one that is not there is removed already.
	Delete(ctx context.Context, name string) error
	// String is the bucket's URI, secrets masked.
	String() string
	// Close gives connections up. No call follows it.
	Close() error
}

// longest is how long a name may be: what S3, GCS and Azure take, less what a
// URI's own prefix may need.
const longest = 768

// CheckName refuses names that not every kind of bucket can hold.
func CheckName(name string) error {
	if name == "" || len(name) > longest {
		return cdcerr.InvalidArgument.New("object name %q: must have 1 to %d bytes", name, longest)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || strings.HasPrefix(part, ".") || len(part) > 255 {
			return cdcerr.InvalidArgument.New("object name %q: the part %q is empty, hidden or longer than 255 bytes", name, part)
		}
	}
	for _, b := range []byte(name) {
		if b <= ' ' || b > '~' || strings.IndexByte(`\?#%*:|"<>`, b) >= 0 {
			return cdcerr.InvalidArgument.New("object name %q: the byte %q is not one that every object store takes", name, b)
		}
	}
	return nil
}

// PutOnce is PutNew for who cannot be wrong about the name: an object that is
// there with the same bytes was put by an attempt whose answer was lost.
func PutOnce(ctx context.Context, b Bucket, name string, data []byte) error {
	err := b.PutNew(ctx, name, data)
	if !cdcerr.ObjectExists.Is(err) {
		return err
	}
	there, getErr := b.Get(ctx, name, 0, ToEnd)
	if getErr != nil {
		return fmt.Errorf("comparing %s with what was put: %w", name, getErr)
	}
	if bytes.Equal(there, data) {
		return nil
	}
	return err
}

// All is a listing as a slice.
func All(ctx context.Context, b Bucket, prefix, after string) ([]Object, error) {
	var out []Object
	err := b.List(ctx, prefix, after, func(o Object) error {
		out = append(out, o)
		return nil
	})
	return out, err
}

// checkRange refuses what is no part of an object.
func checkRange(name string, offset, length int64) error {
	if offset < 0 || length < ToEnd {
		return cdcerr.InvalidArgument.New("object %s: there are no %d bytes from %d on", name, length, offset)
	}
	return nil
}

// exists and notFound are what all kinds of bucket answer alike.
func exists(b Bucket, name string) error {
	return cdcerr.ObjectExists.New("%s: there is an object %s", b, name)
}

func notFound(b Bucket, name string) error {
	return cdcerr.ObjectNotFound.New("%s: there is no object %s", b, name)
}
