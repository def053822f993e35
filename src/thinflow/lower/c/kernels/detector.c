#include <math.h>

typedef struct {
    int32_t boxes, box_step, classes, all_classes; /* numbers of a box; classes, and those with a background in front */
    int32_t most, each;                            /* detections; classes of each box, or detections of each class */
    float least_score, most_overlap;
    float y_scale, x_scale, h_scale, w_scale;
    const float *anchors; /* [boxes, 4] */
} detector_t;

/* Corners of boxes whose centers and sizes are told beside those of their anchors. */
static void detector_corners(const float *x, float *corners, const detector_t *s)
{
    const float scale[4] = {s->y_scale, s->x_scale, s->h_scale, s->w_scale};
    for (int32_t i = 0; i < s->boxes; i++, x += s->box_step, corners += 4) {
        for (int32_t k = 0; k < 2; k++) {
            const double size = s->anchors[4 * i + 2 + k];
            const float center = (float)((double)x[k] / (double)scale[k] * size + (double)s->anchors[4 * i + k]);
            const float half = (float)(0.5 * exp((double)x[2 + k] / (double)scale[2 + k]) * size);
            corners[k] = center - half;
            corners[2 + k] = center + half;
        }
    }
}

static float detector_overlap(const float *a, const float *b)
{
    const float a_size = (a[2] - a[0]) * (a[3] - a[1]), b_size = (b[2] - b[0]) * (b[3] - b[1]);
    const float height = fmaxf(fminf(a[2], b[2]) - fmaxf(a[0], b[0]), 0.0f);
    const float width = fmaxf(fminf(a[3], b[3]) - fmaxf(a[1], b[1]), 0.0f);
    return a_size <= 0 || b_size <= 0 ? 0.0f : height * width / (a_size + b_size - height * width);
}

/* The box with the best score of those that are left; those that overlap it are not any more. -1 if there is none. */
static int32_t detector_next(const float *corners, const float *scores, int32_t step, uint8_t *is_left, const detector_t *s)
{
    int32_t best = -1;
    for (int32_t i = 0; i < s->boxes; i++) {
        if (is_left[i] != 0 && (best < 0 || scores[i * step] > scores[best * step])) {
            best = i;
        }
    }
    for (int32_t i = 0; i < s->boxes && best >= 0; i++) {
        if (i == best || (is_left[i] != 0 && detector_overlap(corners + 4 * best, corners + 4 * i) > s->most_overlap)) {
            is_left[i] = 0;
        }
    }
    return best;
}

static void detector_begin(const float *scores, int32_t step, uint8_t *is_left, const detector_t *s)
{
    for (int32_t i = 0; i < s->boxes; i++) {
        is_left[i] = scores[i * step] >= s->least_score;
    }
}
