package meta

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// member is the etcd in this process.
type member struct {
	*embed.Etcd
	last  lastWords
	cut   grpc.StreamServerInterceptor // ends every stream once leave was called
	leave context.CancelFunc
}

func newMember() *member {
	leaving, leave := context.WithCancel(context.Background())
	return &member{cut: cut(leaving), leave: leave}
}

// end stops the member. Etcd would wait seven seconds for streams that others have
// open, and they for it: watches have no end of their own. They are cut, and go on at
// another member.
func (m *member) end() {
	m.last.leaving.Store(true)
	m.leave()
	m.Close()
}

// cut ends streams when leaving ends.
func cut(leaving context.Context) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		ctx, cancel := context.WithCancel(stream.Context())
		defer cancel()
		defer context.AfterFunc(leaving, cancel)()
		err := handle(srv, mortalStream{stream, func() context.Context { return ctx }})
		if leaving.Err() != nil {
			return status.Error(codes.Unavailable, "the member ends") // the client asks another one
		}
		return err
	}
}

// mortalStream is a stream whose context ends with the member.
type mortalStream struct {
	grpc.ServerStream
	own func() context.Context
}

// Context implements grpc.ServerStream.
func (s mortalStream) Context() context.Context { return s.own() }

// failed gives what a member could not start for its code: a full disk and a damaged
// directory want different hands. Other is for what is neither.
func failed(dir string, err error, other *cdcerr.Code) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EROFS) {
		return cdcerr.MetaDisk.Wrap(err, "the embedded etcd cannot write to %s", dir)
	}
	return other.Wrap(err, "the embedded etcd cannot start on %s", dir)
}

// openWait bounds how long the database of a member is waited for that another
// process has open.
const openWait = 5 * time.Second

// sound looks through a member's database before etcd opens it: what etcd finds
// there later, in goroutines of its own, would end the process without a word of what
// to do.
func sound(path string) (err error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	damaged := func(why any) error {
		return cdcerr.MetaDirDamaged.New("the embedded etcd's database %s is damaged: %v", path, why)
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // a file that was cut short faults where it is read
	defer func() {
		if r := recover(); r != nil {
			err = damaged(r)
		}
	}()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: openWait})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return cdcerr.DataDirInUse.Wrap(err, "the embedded etcd's database %s", path)
	}
	if err != nil {
		return damaged(err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.View(func(tx *bolt.Tx) error {
		if size, have := tx.Size(), fileSize(path); have < size {
			return damaged(fmt.Sprintf("it says that it is %d bytes long, and is %d", size, have))
		}
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
			return b.ForEach(func(_, _ []byte) error { return nil })
		})
	})
}

// membersBucket is where etcd's database keeps who is a member.
const membersBucket = "members"

// knowsMembers tells whether a database, which may not be there yet, has come to know
// any member of its cluster. One that is damaged is an error: nobody knows what it held.
func knowsMembers(path string) (known bool, err error) {
	if fileSize(path) == 0 {
		return false, nil
	}
	if err := sound(path); err != nil {
		return false, err
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: openWait})
	if err != nil {
		return false, cdcerr.MetaDirDamaged.Wrap(err, "the embedded etcd's database %s", path)
	}
	err = db.View(func(tx *bolt.Tx) error {
		if b := tx.Bucket([]byte(membersBucket)); b != nil {
			first, _ := b.Cursor().First()
			known = first != nil
		}
		return nil
	})
	return known, errors.Join(err, db.Close())
}

func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
