package changefeed

import (
	"strings"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// ID names a changefeed within a cluster of Sluice.
type ID struct {
	Namespace string `json:"namespace"`
	Name      string `json:"id"`
}

// DefaultNamespace is where changefeeds are that nobody put elsewhere.
const DefaultNamespace = "default"

// nameMax is how long a name may be, in bytes.
const nameMax = 128

// ParseID checks what an operator wrote. An empty namespace is the default one.
func ParseID(namespace, name string) (ID, error) {
	if namespace == "" {
		namespace = DefaultNamespace
	}
	id := ID{namespace, name}
	return id, id.Validate()
}

// Validate tells which half of the name cannot be used.
func (id ID) Validate() error {
	if why := wrong(id.Namespace); why != "" {
		return cdcerr.NamespaceInvalid.New("namespace %q %s", clip(id.Namespace), why)
	}
	if why := wrong(id.Name); why != "" {
		return cdcerr.ChangefeedIDInvalid.New("changefeed-id %q %s", clip(id.Name), why)
	}
	return nil
}

// clip is the begin of a word that is too long to be printed back.
func clip(word string) string {
	if len(word) <= nameMax {
		return word
	}
	return strings.ToValidUTF8(word[:nameMax/2], "") + "…"
}

// String is namespace/name.
func (id ID) String() string { return id.Namespace + "/" + id.Name }

// wrong says what is wrong with a word of letters and digits, with single - in between.
func wrong(word string) string {
	switch {
	case word == "":
		return "is empty"
	case len(word) > nameMax:
		return "is longer than 128 bytes"
	case strings.HasPrefix(word, "-") || strings.HasSuffix(word, "-"):
		return "begins or ends with -"
	case strings.Contains(word, "--"):
		return "has two - side by side"
	}
	for _, c := range word {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return "may hold only letters, digits and -"
		}
	}
	return ""
}
