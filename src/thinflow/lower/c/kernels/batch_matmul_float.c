typedef struct {
    int32_t count[3], a_step[3], b_step[3]; /* of the batches */
    int32_t rows, depth, columns;
    int32_t a_row, a_next, b_row, b_next; /* elements from row to row and from one to the next of [rows, depth], [depth, columns] */
} ${name}_t;

/* Products of matrices, batch by batch. */
static void $name(const float *a, const float *b, float *y, const ${name}_t *s)
{
    for (int32_t i = 0; i < s->count[0]; i++) {
        for (int32_t j = 0; j < s->count[1]; j++) {
            for (int32_t k = 0; k < s->count[2]; k++) {
                const float *first = a + i * s->a_step[0] + j * s->a_step[1] + k * s->a_step[2];
                const float *second = b + i * s->b_step[0] + j * s->b_step[1] + k * s->b_step[2];
                for (int32_t row = 0; row < s->rows; row++, y += s->columns) {
                    memset(y, 0, (size_t)s->columns * sizeof *y);
                    for (int32_t d = 0; d < s->depth; d++) {
                        const float factor = first[row * s->a_row + d * s->a_next];
                        for (int32_t c = 0; c < s->columns; c++) {
                            y[c] += factor * second[d * s->b_row + c * s->b_next];
                        }
                    }
                }
            }
        }
    }
}
