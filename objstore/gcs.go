package objstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/sluice-cdc/sluice/cdcerr"
)

const (
	gcsEndpoint = "https://storage.googleapis.com"
	gcsScope    = "https://www.googleapis.com/auth/devstorage.read_write"
	// gcsTextMax is how much of a refusal is read: it is a page of JSON.
	gcsTextMax = 64 << 10
)

// gcs is a bucket of Google Cloud Storage, by its JSON interface: four requests,
// of which the client library would be two hundred modules.
type gcs struct {
	client   *http.Client
	carriage *http.Transport
	endpoint string
	bucket   string
	prefix   string
	text     string
}

func openGCS(ctx context.Context, l *location) (Bucket, error) {
	if err := errors.Join(l.needBucket(), l.only("endpoint", "credentials-file")); err != nil {
		return nil, err
	}
	b := &gcs{carriage: transport(), endpoint: gcsEndpoint, bucket: l.bucket, prefix: l.prefix, text: l.text}
	if e := strings.TrimSuffix(l.query.Get("endpoint"), "/"); e != "" {
		b.endpoint = e
	}
	b.client = &http.Client{Transport: b.carriage}
	file := l.query.Get("credentials-file")
	if b.endpoint != gcsEndpoint && file == "" {
		return b, nil // a store of one's own that was given no secret asks for none
	}
	// Tokens are renewed for as long as the bucket is open.
	ctx = context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, b.client)
	creds, err := gcsCredentials(ctx, file)
	if err != nil {
		return nil, cdcerr.StorageDenied.Wrap(err, "storage URI %s: looking for credentials", l.text)
	}
	b.client = &http.Client{Transport: &oauth2.Transport{Source: creds.TokenSource, Base: b.carriage}}
	return b, nil
}

// gcsCredentials are those of the file, or the first that the usual chain has.
func gcsCredentials(ctx context.Context, file string) (*google.Credentials, error) {
	if file == "" {
		return google.FindDefaultCredentials(ctx, gcsScope)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var head struct{ Type google.CredentialsType }
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("%s holds no credentials", file)
	}
	return google.CredentialsFromJSONWithType(ctx, text, head.Type, gcsScope)
}

// refusal is an answer that is no success.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return fmt.Sprintf("status %d: %s", r.status, r.text) }

// call sends a request and gives the body of its success, which is the caller's to
// close.
func (b *gcs) call(ctx context.Context, method, path string, query url.Values, header http.Header, data []byte) (*http.Response, error) {
	var content io.Reader
	if data != nil {
		content = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, b.endpoint+path+"?"+query.Encode(), content)
	if err != nil {
		return nil, err
	}
	for key, values := range header {
		req.Header[key] = values
	}
	answer, err := b.client.Do(req)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode < http.StatusMultipleChoices {
		return answer, nil
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, gcsTextMax))
	if err != nil {
		return nil, err
	}
	return nil, &refusal{status: answer.StatusCode, text: strings.Join(strings.Fields(string(text)), " ")}
}

func (b *gcs) objectPath(name string) string {
	return "/storage/v1/b/" + url.PathEscape(b.bucket) + "/o/" + url.PathEscape(b.prefix+name)
}

// wrap gives an error its code. A missing object and a missing bucket have one
// status: the bucket is asked for.
func (b *gcs) wrap(ctx context.Context, err error, name, what string) error {
	if err == nil {
		return nil
	}
	text := b.text + ": " + what + " " + name
	var no *refusal
	if !errors.As(err, &no) {
		return cdcerr.StorageAPI.Wrap(err, "%s", text)
	}
	switch no.status {
	case http.StatusPreconditionFailed:
		return exists(b, name)
	case http.StatusUnauthorized, http.StatusForbidden:
		return cdcerr.StorageDenied.Wrap(err, "%s", text)
	case http.StatusNotFound:
		answer, bucketErr := b.call(ctx, http.MethodGet, "/storage/v1/b/"+url.PathEscape(b.bucket)+"/o", url.Values{"maxResults": {"1"}}, nil, nil)
		if bucketErr == nil {
			_ = answer.Body.Close() // nothing is read of it
			return notFound(b, name)
		}
		if errors.As(bucketErr, &no) && no.status == http.StatusNotFound {
			return cdcerr.StorageGone.Wrap(err, "%s", text)
		}
		return cdcerr.StorageAPI.Wrap(errors.Join(err, bucketErr), "%s", text)
	}
	return cdcerr.StorageAPI.Wrap(err, "%s", text)
}

// Put implements Bucket.
func (b *gcs) Put(ctx context.Context, name string, data []byte) error {
	return b.put(ctx, name, data, url.Values{})
}

// PutNew implements Bucket.
func (b *gcs) PutNew(ctx context.Context, name string, data []byte) error {
	return b.put(ctx, name, data, url.Values{"ifGenerationMatch": {"0"}})
}

func (b *gcs) put(ctx context.Context, name string, data []byte, query url.Values) error {
	if err := ready(ctx, name); err != nil {
		return err
	}
	query.Set("uploadType", "media")
	query.Set("name", b.prefix+name)
	if data == nil {
		data = []byte{}
	}
	answer, err := b.call(ctx, http.MethodPost, "/upload/storage/v1/b/"+url.PathEscape(b.bucket)+"/o", query,
		http.Header{"Content-Type": {"application/octet-stream"}}, data)
	if err != nil {
		return b.wrap(ctx, err, name, "writing")
	}
	_, err = io.Copy(io.Discard, answer.Body) // so that the connection can be used again
	return b.wrap(ctx, errors.Join(err, answer.Body.Close()), name, "writing")
}

// Get implements Bucket.
func (b *gcs) Get(ctx context.Context, name string, offset, length int64) ([]byte, error) {
	if err := ready(ctx, name); err != nil {
		return nil, err
	}
	if err := checkRange(name, offset, length); err != nil {
		return nil, err
	}
	header := http.Header{"Accept-Encoding": {"identity"}}
	if part := httpRange(offset, length); part != "" {
		header.Set("Range", part)
	}
	answer, err := b.call(ctx, http.MethodGet, b.objectPath(name), url.Values{"alt": {"media"}}, header, nil)
	if err != nil {
		if no := (*refusal)(nil); errors.As(err, &no) && no.status == http.StatusRequestedRangeNotSatisfiable {
			return nil, nil // the object ends before offset
		}
		return nil, b.wrap(ctx, err, name, "reading")
	}
	defer answer.Body.Close()
	data, err := readBody(answer.Body, answer.ContentLength, length)
	return data, b.wrap(ctx, err, name, "reading")
}

// List implements Bucket.
func (b *gcs) List(ctx context.Context, prefix, after string, visit func(Object) error) error {
	query := url.Values{"prefix": {b.prefix + prefix}, "fields": {"items(name,size),nextPageToken"}}
	if after != "" {
		query.Set("startOffset", b.prefix+after)
	}
	for {
		var page struct {
			Items []struct {
				Name string
				Size int64 `json:",string"`
			}
			NextPageToken string
		}
		answer, err := b.call(ctx, http.MethodGet, "/storage/v1/b/"+url.PathEscape(b.bucket)+"/o", query, nil, nil)
		if err == nil {
			err = errors.Join(json.NewDecoder(answer.Body).Decode(&page), answer.Body.Close())
		}
		if err != nil {
			return b.wrap(ctx, err, prefix, "listing")
		}
		for _, o := range page.Items {
			if name := o.Name[len(b.prefix):]; name > after {
				if err := visit(Object{Name: name, Size: o.Size}); err != nil {
					return err
				}
			}
		}
		if page.NextPageToken == "" {
			return nil
		}
		query.Set("pageToken", page.NextPageToken)
	}
}

// Delete implements Bucket.
func (b *gcs) Delete(ctx context.Context, name string) error {
	if err := ready(ctx, name); err != nil {
		return err
	}
	answer, err := b.call(ctx, http.MethodDelete, b.objectPath(name), url.Values{}, nil, nil)
	if err == nil {
		return b.wrap(ctx, answer.Body.Close(), name, "removing")
	}
	if err = b.wrap(ctx, err, name, "removing"); cdcerr.ObjectNotFound.Is(err) {
		return nil
	}
	return err
}

// String implements Bucket.
func (b *gcs) String() string { return b.text }

// Close implements Bucket.
func (b *gcs) Close() error {
	b.carriage.CloseIdleConnections()
	return nil
}
