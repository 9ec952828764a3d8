#!lua flags=allow-oom
-- Report the ends of claims. Keys: requests.lua.
-- ARGV: stage attempts_max letters_max, then for each report
--       kind job fence started_ns finished_ns first second third
--   END      outcome reward body        GIVEBACK
--   HANDOVER next_stage handover        FAIL      error
-- Returns {statuses (1 done, 0 stale), completed: {tenant, batch, slack_ms} each}
--@include requests.lua

local stage, attempts_max, letters_max = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local HEAD, WIDTH = 3, 8
local statuses, released, told = {}, {}, {}

local act = {}

function act.END(job, j, at)
  local started, finished = ARGV[at + 3], ARGV[at + 4]
  end_request(job, j, ARGV[at + 5], ARGV[at + 6], ARGV[at + 7], '',
    timing(j, started, finished), service(j, started, finished))
  drop_job(job, j)
end

function act.HANDOVER(job, j, at)
  local started, finished = ARGV[at + 3], ARGV[at + 4]
  call('HSET', P .. 'j:' .. job, 'm', j.timings .. timing(j, started, finished),
    'v', j.services .. service(j, started, finished))
  call('SET', P .. 'o:' .. job, ARGV[at + 6])
  j.stage, j.stages_gone = ARGV[at + 5], j.stages_gone + 1
  j.attempts, j.enqueued = 0, NOW_US
  deliver_again(job, j, '')
end

function act.FAIL(job, j, at)
  if j.attempts < attempts_max then
    deliver_again(job, j, ARGV[at + 5])
  else
    local started, finished = ARGV[at + 3], ARGV[at + 4]
    bury(job, j, ARGV[at + 5], timing(j, started, finished), service(j, started, finished),
      letters_max)
  end
end

function act.GIVEBACK(job, j)
  j.attempts, j.claims = j.attempts - 1, j.claims - 1
  deliver_again(job, j, '')
end

for at = HEAD + 1, #ARGV, WIDTH do
  local job = ARGV[at + 1]
  local j = read_job(job)
  local n = #statuses + 1
  local held = j and not told[job] and j.state == 'L' and j.stage == stage
  if held and j.fence == tonumber(ARGV[at + 2]) then
    act[ARGV[at]](job, j, at)
    told[job] = true
    released[#released + 1] = job
    statuses[n] = 1
  else
    statuses[n] = 0
  end
end
in_slices('ZREM', P .. 'l:' .. stage, released)
write_touched()
return { statuses, completed }
