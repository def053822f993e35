/* Each number once, in the order in which they come, with zeros behind them; for each where it is; and how many there are. */
static void $name(const ${c_type} *x, ${c_type} *y, ${y_type} *places, int32_t *rows, int32_t count)
{
    int32_t found = 0;
    memset(y, 0, (size_t)count * sizeof *y);
    for (int32_t i = 0; i < count; i++) {
        int32_t place = 0;
        while (place < found && y[place] != x[i]) {
            place++;
        }
        if (place == found) {
            y[found++] = x[i];
        }
        places[i] = place;
    }
    *rows = found;
}
