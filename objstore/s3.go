package objstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// s3Tries is how often the client sends one request. Whoever uses a bucket tries
// again anyway, and is told sooner what is wrong.
const s3Tries = 3

// s3 is a bucket of any S3-compatible store.
type s3 struct {
	core     minio.Core
	bucket   string
	prefix   string
	text     string
	carriage *http.Transport
}

func openS3(l *location) (Bucket, error) {
	if err := errors.Join(l.needBucket(), l.only("endpoint", "region", "access-key", "secret-access-key", "session-token", "force-path-style")); err != nil {
		return nil, err
	}
	host, secure := "s3.amazonaws.com", true
	if text := l.query.Get("endpoint"); text != "" {
		e, err := url.Parse(text)
		if err != nil || e.Host == "" || e.Scheme != "http" && e.Scheme != "https" || e.Path != "" && e.Path != "/" {
			return nil, cdcerr.StorageURIInvalid.New("storage URI %s: the endpoint %q must be http(s)://host:port", l.text, Masked(text))
		}
		host, secure = e.Host, e.Scheme == "https"
	}
	lookup := minio.BucketLookupAuto
	if text := l.query.Get("force-path-style"); text != "" {
		path, err := strconv.ParseBool(text)
		if err != nil {
			return nil, cdcerr.StorageURIInvalid.New("storage URI %s: force-path-style %q must be true or false", l.text, text)
		}
		if path {
			lookup = minio.BucketLookupPath
		}
	}
	creds, err := l.s3Credentials()
	if err != nil {
		return nil, err
	}
	carriage, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, fmt.Errorf("storage URI %s: %w", l.text, err)
	}
	unstalled(carriage, pushMax, answerMax)
	core, err := minio.NewCore(host, &minio.Options{
		Creds: creds, Secure: secure, Region: l.query.Get("region"), BucketLookup: lookup, MaxRetries: s3Tries, Transport: carriage,
	})
	if err != nil {
		return nil, cdcerr.StorageURIInvalid.New("storage URI %s: %v", l.text, err)
	}
	return &s3{core: *core, bucket: l.bucket, prefix: l.prefix, text: l.text, carriage: carriage}, nil
}

// s3Credentials are those of the URI, or the first that the usual chain has:
// environment, shared file, the machine's own role.
func (l *location) s3Credentials() (*credentials.Credentials, error) {
	key, secret := l.query.Get("access-key"), l.query.Get("secret-access-key")
	switch {
	case key != "" && secret != "":
		return credentials.NewStaticV4(key, secret, l.query.Get("session-token")), nil
	case key != "" || secret != "":
		return nil, cdcerr.StorageURIInvalid.New("storage URI %s: access-key and secret-access-key go together", l.text)
	}
	return credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{}, &credentials.EnvMinio{}, &credentials.FileAWSCredentials{}, &credentials.IAM{},
	}), nil
}

// wrap gives an error of the client its code.
func (b *s3) wrap(err error, name, what string) error {
	if err == nil {
		return nil
	}
	text := b.text + ": " + what + " " + name
	answer := minio.ToErrorResponse(err)
	switch answer.Code {
	case minio.NoSuchKey:
		return notFound(b, name)
	case minio.PreconditionFailed:
		return exists(b, name)
	case minio.NoSuchBucket:
		return cdcerr.StorageGone.Wrap(err, "%s", text)
	case minio.AccessDenied, "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "AllAccessDisabled":
		return cdcerr.StorageDenied.Wrap(err, "%s", text)
	case "QuotaExceeded", "XMinioStorageFull":
		return cdcerr.StorageFull.Wrap(err, "%s", text)
	}
	switch answer.StatusCode {
	case http.StatusPreconditionFailed:
		return exists(b, name)
	case http.StatusForbidden, http.StatusUnauthorized:
		return cdcerr.StorageDenied.Wrap(err, "%s", text)
	}
	return cdcerr.StorageAPI.Wrap(err, "%s", text)
}

// Put implements Bucket.
func (b *s3) Put(ctx context.Context, name string, data []byte) error {
	return b.put(ctx, name, data, minio.PutObjectOptions{})
}

// PutNew implements Bucket.
func (b *s3) PutNew(ctx context.Context, name string, data []byte) error {
	var opts minio.PutObjectOptions
	opts.SetMatchETagExcept("*")
	return b.put(ctx, name, data, opts)
}

// put sends an object in one request: what is uploaded in parts appears when the
// last request is done, and not all stores have a condition for that one.
func (b *s3) put(ctx context.Context, name string, data []byte, opts minio.PutObjectOptions) error {
	if err := ready(ctx, name); err != nil {
		return err
	}
	opts.DisableMultipart = true
	opts.ContentType = "application/octet-stream"
	opts.SendContentMd5 = true
	_, err := b.core.Client.PutObject(ctx, b.bucket, b.prefix+name, bytes.NewReader(data), int64(len(data)), opts)
	return b.wrap(err, name, "writing")
}

// Get implements Bucket.
func (b *s3) Get(ctx context.Context, name string, offset, length int64) ([]byte, error) {
	if err := ready(ctx, name); err != nil {
		return nil, err
	}
	if err := checkRange(name, offset, length); err != nil {
		return nil, err
	}
	var opts minio.GetObjectOptions
	if header := httpRange(offset, length); header != "" {
		opts.Set("Range", header)
	}
	body, info, _, err := b.core.GetObject(ctx, b.bucket, b.prefix+name, opts)
	if err != nil {
		if minio.ToErrorResponse(err).StatusCode == http.StatusRequestedRangeNotSatisfiable {
			return nil, nil // the object ends before offset
		}
		return nil, b.wrap(err, name, "reading")
	}
	defer body.Close()
	data, err := readBody(body, info.Size, length)
	return data, b.wrap(err, name, "reading")
}

// httpRange is the header for a part of an object, empty for all of it. There is
// no range of no bytes: one byte is asked for, and not given out.
func httpRange(offset, length int64) string {
	switch {
	case length == ToEnd && offset == 0:
		return ""
	case length == ToEnd:
		return fmt.Sprintf("bytes=%d-", offset)
	}
	return fmt.Sprintf("bytes=%d-%d", offset, offset+max(1, length)-1)
}

// readBody reads an answer of a known size, of which length bytes are wanted.
func readBody(body io.Reader, size, length int64) ([]byte, error) {
	if size < 0 {
		return nil, fmt.Errorf("an answer that does not tell its length")
	}
	out := make([]byte, size)
	if _, err := io.ReadFull(body, out); err != nil {
		return nil, err
	}
	if length != ToEnd && length < size {
		out = out[:length]
	}
	return out, nil
}

// List implements Bucket.
func (b *s3) List(ctx context.Context, prefix, after string, visit func(Object) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the client's pages end with it
	opts := minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: true}
	if after != "" {
		opts.StartAfter = b.prefix + after
	}
	for o := range b.core.ListObjectsIter(ctx, b.bucket, opts) {
		if o.Err != nil {
			return b.wrap(o.Err, prefix, "listing")
		}
		// Not every store knows StartAfter.
		if name := o.Key[len(b.prefix):]; name > after {
			if err := visit(Object{Name: name, Size: o.Size}); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// Delete implements Bucket.
func (b *s3) Delete(ctx context.Context, name string) error {
	if err := ready(ctx, name); err != nil {
		return err
	}
	err := b.wrap(b.core.RemoveObject(ctx, b.bucket, b.prefix+name, minio.RemoveObjectOptions{}), name, "removing")
	if cdcerr.ObjectNotFound.Is(err) {
		return nil
	}
	return err
}

// String implements Bucket.
func (b *s3) String() string { return b.text }

// Close implements Bucket.
func (b *s3) Close() error {
	b.carriage.CloseIdleConnections()
	return nil
}
