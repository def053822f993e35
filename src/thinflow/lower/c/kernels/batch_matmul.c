#include "requantize_$rounding.c"

typedef struct {
    int32_t count[3], a_step[3], b_step[3]; /* of the batches */
    int32_t rows, depth, columns;
    int32_t a_row, a_next, b_row, b_next; /* elements from row to row and from one to the next of [rows, depth], [depth, columns] */
    int32_t a_zero_point, b_zero_point;
    requantize_${rounding}_t output;
} ${name}_t;

/* Products of matrices, batch by batch. */
static void $name(const ${c_type} *a, const ${c_type} *b, ${c_type} *y, const ${name}_t *s)
{
    for (int32_t i = 0; i < s->count[0]; i++) {
        for (int32_t j = 0; j < s->count[1]; j++) {
            for (int32_t k = 0; k < s->count[2]; k++) {
                const ${c_type} *first = a + i * s->a_step[0] + j * s->a_step[1] + k * s->a_step[2];
                const ${c_type} *second = b + i * s->b_step[0] + j * s->b_step[1] + k * s->b_step[2];
                for (int32_t row = 0; row < s->rows; row++) {
                    for (int32_t c = 0; c < s->columns; c++) {
                        ${sum_type} sum = 0;
                        for (int32_t d = 0; d < s->depth; d++) {
                            sum += (first[row * s->a_row + d * s->a_next] - s->a_zero_point) *
                                   (second[d * s->b_row + c * s->b_next] - s->b_zero_point);
                        }
                        *y++ = (${c_type})requantize_$rounding(sum, &s->output, 0);
                    }
                }
            }
        }
    }
}
