#include "window.c"

/* The part of a picture under a window, [height, width, channels], what lies outside filled with a value. */
static void $name(const ${c_type} *picture, ${c_type} *patch, const window_t *s, int32_t out_y, int32_t out_x,
                  int32_t first_channel, int32_t channels, ${c_type} outside)
{
    for (int32_t i = 0; i < s->height; i++) {
        const int32_t y = out_y * s->stride_y - s->pad_top + i * s->dilation_y;
        const int32_t left = out_x * s->stride_x - s->pad_left;
        if (channels == s->in_channels && s->dilation_x == 1 && y >= 0 && y < s->in_height && left >= 0 &&
            left + s->width <= s->in_width) {
            /* The whole line of the window lies in one piece. */
            const int32_t line = s->width * channels;
            memcpy(patch, picture + (y * s->in_width + left) * channels, (size_t)line * sizeof *patch);
            patch += line;
            continue;
        }
        for (int32_t j = 0; j < s->width; j++) {
            const int32_t x = out_x * s->stride_x - s->pad_left + j * s->dilation_x;
            if (y >= 0 && y < s->in_height && x >= 0 && x < s->in_width) {
                memcpy(patch, picture + (y * s->in_width + x) * s->in_channels + first_channel,
                       (size_t)channels * sizeof *patch);
            } else {
                for (int32_t c = 0; c < channels; c++) {
                    patch[c] = outside;
                }
            }
            patch += channels;
        }
    }
}
