#include "picture_steps.c"

typedef struct {
    int32_t batches, in_height, in_width, channels, out_height, out_width;
    const int32_t *y_lower, *y_upper, *x_lower, *x_upper; /* rows and columns next to each of the output */
    const float *y_part, *x_part;                         /* how far it is on the way from the one to the other */
    picture_steps_${type}_${op}_t steps;
} ${name}_t;

/* Pictures of another size, as the numbers that a network takes: each pixel between four. */
static void $name(const ${c_type} *x, $y_type *y, const ${name}_t *s)
{
    const int32_t row = s->in_width * s->channels;
    for (int32_t b = 0; b < s->batches; b++, x += s->in_height * row) {
        for (int32_t i = 0; i < s->out_height; i++) {
            const ${c_type} *above = x + s->y_lower[i] * row, *below = x + s->y_upper[i] * row;
            const float down = s->y_part[i], up = 1 - down;
            for (int32_t j = 0; j < s->out_width; j++) {
                const int32_t left = s->x_lower[j] * s->channels, right = s->x_upper[j] * s->channels;
                const float east = s->x_part[j], west = 1 - east;
                for (int32_t c = 0; c < s->channels; c++) {
                    const float found = picture_steps_${type}_${op}_read(above[left + c], c, &s->steps) * up * west +
                                        picture_steps_${type}_${op}_read(below[left + c], c, &s->steps) * down * west +
                                        picture_steps_${type}_${op}_read(above[right + c], c, &s->steps) * up * east +
                                        picture_steps_${type}_${op}_read(below[right + c], c, &s->steps) * down * east;
                    *y++ = picture_steps_${type}_${op}_made(found, c, &s->steps);
                }
            }
        }
    }
}
