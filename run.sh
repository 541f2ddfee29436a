#!/bin/bash
for n in "$@"; do
 /usr/bin/time -f "%e s %U u %M KB" -o /tmp/lk/t nice ${L:-} timeout -k 5 ${T:-60} /tmp/lk/bin/culprit-analyzer analyze -q /tmp/lk/good /tmp/lk/a/$n >/tmp/lk/out.$n 2>/tmp/lk/err.$n
 rc=$?
 echo "$n rc=$rc $(tail -1 /tmp/lk/t) | $(ls -l /tmp/lk/a/$n | awk 'NR>1{s+=$5}END{print s}') B | $(head -1 /tmp/lk/out.$n | cut -c1-20) | $(grep -ah evil /tmp/lk/err.$n /tmp/lk/out.$n | head -1 | cut -c1-150) $(grep -a -m1 'fatal\|panic' /tmp/lk/err.$n|cut -c1-100)"
done
