package redo

// Marks is how many resolved-ts wait for files.
func (w *Writer) Marks() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.marks)
}
