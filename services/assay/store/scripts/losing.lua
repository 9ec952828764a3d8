-- Leases that are taken back from their workers. Included after ends.lua; needs the locals
-- attempts_max, letters_max and own_max.

local redelivered, dead = 0, 0

-- A failed attempt: the job waits again in its old place, or ends as a dead letter. The caller
-- removes the lease.
local function lose(job, j, why)
  if j.attempts < attempts_max then
    deliver_again(job, j, why)
    redelivered = redelivered + 1
  else
    local held_ns = string.format('%.0f', (NOW_US - j.claimed) * 1000)
    bury(job, j, why, timing(j, '0', held_ns), service(j, '0', '0'), letters_max, own_max)
    dead = dead + 1
  end
end
