#include "detector.c"

/* The best boxes of each class, and of all these the best. corners [boxes, 4], chosen [most], is_left [boxes]; what is not
   filled is 0. */
static void $name(const float *x, const float *scores, float *y, float *y_classes, float *y_scores, float *y_count,
                  float *corners, float *best, int32_t *chosen, uint8_t *is_left, const detector_t *s)
{
    int32_t found = 0;
    (void)best;
    detector_corners(x, corners, s);
    for (int32_t c = 0; c < s->classes; c++) {
        const float *own = scores + s->all_classes - s->classes + c;
        detector_begin(own, s->all_classes, is_left, s);
        for (int32_t n = 0; n < s->each; n++) {
            const int32_t box = detector_next(corners, own, s->all_classes, is_left, s);
            if (box < 0) {
                break;
            }
            const float score = own[box * s->all_classes];
            int32_t place = found < s->most ? found++ : s->most;
            /* Behind those that are as good; the last makes room. */
            for (; place > 0 && y_scores[place - 1] < score; place--) {
                if (place < s->most) {
                    y_scores[place] = y_scores[place - 1];
                    y_classes[place] = y_classes[place - 1];
                    chosen[place] = chosen[place - 1];
                }
            }
            if (place < s->most) {
                y_scores[place] = score;
                y_classes[place] = (float)c;
                chosen[place] = box;
            }
        }
    }
    for (int32_t i = 0; i < s->most; i++) {
        if (i < found) {
            memcpy(y + 4 * i, corners + 4 * chosen[i], 4 * sizeof *y);
        } else {
            memset(y + 4 * i, 0, 4 * sizeof *y);
            y_classes[i] = y_scores[i] = 0.0f;
        }
    }
    *y_count = (float)found;
}
