#include "detector.c"

/* The best boxes by their best class, then the best classes of each. corners [boxes, 4], best [boxes], is_left [boxes]; what is
   not filled is 0. */
static void $name(const float *x, const float *scores, float *y, float *y_classes, float *y_scores, float *y_count,
                  float *corners, float *best, int32_t *chosen, uint8_t *is_left, const detector_t *s)
{
    const int32_t places = s->most * s->each, count = s->each < s->classes ? s->each : s->classes;
    int32_t found = 0;
    (void)chosen;
    detector_corners(x, corners, s);
    memset(y, 0, (size_t)(4 * places) * sizeof *y);
    memset(y_classes, 0, (size_t)places * sizeof *y_classes);
    memset(y_scores, 0, (size_t)places * sizeof *y_scores);
    scores += s->all_classes - s->classes;
    for (int32_t i = 0; i < s->boxes; i++) {
        best[i] = scores[i * s->all_classes];
        for (int32_t k = 1; k < s->classes; k++) {
            best[i] = fmaxf(best[i], scores[i * s->all_classes + k]);
        }
    }
    detector_begin(best, 1, is_left, s);
    for (; found < s->most; found++) {
        const int32_t box = detector_next(corners, best, 1, is_left, s);
        if (box < 0) {
            break;
        }
        const float *own = scores + box * s->all_classes;
        for (int32_t k = 0; k < count; k++) {
            const int32_t place = found * s->each + k;
            /* The next one in order: below the last, or as good and behind it. */
            int32_t next = -1, last = k > 0 ? (int32_t)y_classes[place - 1] : -1;
            for (int32_t c = 0; c < s->classes; c++) {
                const bool is_behind = last < 0 || own[c] < own[last] || (!(own[c] > own[last]) && c > last);
                if (is_behind && (next < 0 || own[c] > own[next])) {
                    next = c;
                }
            }
            memcpy(y + 4 * place, corners + 4 * box, 4 * sizeof *y);
            y_classes[place] = (float)next;
            y_scores[place] = own[next];
        }
    }
    *y_count = (float)found;
}
